"""Local and global views of an array as JAX primitives, so that transformations go through them.

``grad``, ``vmap``, ``jvp`` and ``linearize`` of a pmapped function in a job of many processes need
the two conversions of `bridge` to have rules: each is linear, the other is its transpose. They
cannot be part of a compiled program, which has one view of its arrays: under ``jit``, ``scan`` or
``cond`` a clear refusal takes the place of the wrong number that jax.pmap gives there.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir

from shardlift.mapping.processes.bridge import Bridge

to_global_p = jax.extend.core.Primitive("shardlift_to_global")
to_local_p = jax.extend.core.Primitive("shardlift_to_local")


def to_global(x: Any, bridge: Bridge, axis: int) -> Any:
    """The global array of which ``x`` holds the rows of this process, along ``axis``."""
    return to_global_p.bind(x, bridge=bridge, axis=axis)


def to_local(x: Any, bridge: Bridge, axis: int) -> Any:
    """The rows of this process of the global array ``x``."""
    return to_local_p.bind(x, bridge=bridge, axis=axis)


def _local_impl(x: Any, *, bridge: Bridge, axis: int) -> Any:
    return bridge.to_local(jax.device_put(x, bridge.sharding(axis)))


to_global_p.def_impl(lambda x, *, bridge, axis: bridge.to_global(x, axis))
to_local_p.def_impl(_local_impl)


def _resized(aval: Any, axis: int, rows: int) -> Any:
    shape = (*aval.shape[:axis], rows, *aval.shape[axis + 1 :])
    return jax.core.ShapedArray(shape, aval.dtype, weak_type=aval.weak_type)


to_global_p.def_abstract_eval(lambda x, *, bridge, axis: _resized(x, axis, bridge.rows))
to_local_p.def_abstract_eval(lambda x, *, bridge, axis: _resized(x, axis, bridge.rows_here))

ad.deflinear2(to_global_p, lambda ct, _, **params: [to_local_p.bind(ct, **params)])
ad.deflinear2(to_local_p, lambda ct, _, **params: [to_global_p.bind(ct, **params)])


def _batched(primitive: Any) -> Any:
    def rule(args: Any, dims: Any, **params: Any) -> Any:
        (x,), (dim,) = args, dims
        return primitive.bind(jnp.moveaxis(x, dim, -1), **params), x.ndim - 1

    return rule


def _refuse(*_: Any, **__: Any) -> Any:
    raise ValueError(
        "a pmapped function was called under jit, scan, while, cond or another transformation "
        "that compiles, in a job of many processes. Its arguments are the rows of one process, "
        "and a compiled program cannot go from them to the rows of all: jax.pmap there computes "
        "over the devices of one process and gives a wrong number. Call the pmapped function "
        'outside of that transformation, or use shardlift.pmap(..., view="global"), which takes '
        "global arrays (shardlift.stitch makes them) and works under every transformation."
    )


for _primitive in (to_global_p, to_local_p):
    batching.primitive_batchers[_primitive] = _batched(_primitive)
    mlir.register_lowering(_primitive, _refuse)
