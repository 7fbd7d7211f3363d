"""A pmapped call under a JAX transformation, in a job of many processes.

For ``grad``, ``vmap``, ``jvp`` and ``linearize`` the two conversions of `bridge`, local to global
and back, are JAX primitives with rules: each is linear, and the other is its transpose. They
cannot be part of a compiled program, which has one view of its arrays. Under ``jit``, ``scan`` or
``cond`` such a call is therefore refused, where jax.pmap gives a wrong number.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir

from shardlift.mapping.axes import Axis, Call, prefix_leaves
from shardlift.mapping.plan import Plan
from shardlift.mapping.pmap_options import PmapOptions
from shardlift.mapping.processes.bridge import Bridge


def call_traced(options: PmapOptions, plan: Plan, call: Call) -> Any:
    """The call as conversions and a program, each with rules for transformations.

    A value that every device gets whole has one row per device here, and an output without a
    device axis is the first row of this process: then every gradient is the sum over the rows
    of this process, as with the old pmap.
    """
    bridge = plan.bridge
    assert bridge is not None
    leaves = [
        to_global(_broadcast(leaf, axis, bridge.rows_here), bridge, axis or 0)
        for leaf, axis in zip(call.leaves, call.axes, strict=True)
    ]
    args, kwargs = jax.tree.unflatten(call.tree, leaves)
    out = plan.rowwise(*options.with_static(call.args, args), **kwargs)
    out_axes = prefix_leaves(options.out_axes, out, "out_axes")
    out_leaves, tree = jax.tree.flatten(out)
    rows = [
        to_local(leaf, bridge, axis or 0)[0] if axis is None else to_local(leaf, bridge, axis)
        for leaf, axis in zip(out_leaves, out_axes, strict=True)
    ]
    return jax.tree.unflatten(tree, rows)


def _broadcast(leaf: Any, axis: Axis, rows: int) -> Any:
    if axis is not None:
        return leaf
    leaf = jnp.asarray(leaf)
    return jnp.broadcast_to(leaf, (rows, *leaf.shape))


# ---- the two conversions

to_global_p = jax.extend.core.Primitive("shardlift_to_global")
to_local_p = jax.extend.core.Primitive("shardlift_to_local")


def to_global(x: Any, bridge: Bridge, axis: int) -> Any:
    """The global array whose rows of this process, along ``axis``, are ``x``."""
    return to_global_p.bind(x, bridge=bridge, axis=axis)


def to_local(x: Any, bridge: Bridge, axis: int) -> Any:
    """The rows of this process of the global array ``x``."""
    return to_local_p.bind(x, bridge=bridge, axis=axis)


def _local_impl(x: Any, *, bridge: Bridge, axis: int) -> Any:
    return bridge.to_local(jax.device_put(x, bridge.sharding(axis)))


to_global_p.def_impl(lambda x, *, bridge, axis: bridge.to_global(x, axis))
to_local_p.def_impl(_local_impl)


def _resize(aval: Any, axis: int, rows: int) -> Any:
    shape = (*aval.shape[:axis], rows, *aval.shape[axis + 1 :])
    return jax.core.ShapedArray(shape, aval.dtype, weak_type=aval.weak_type)


to_global_p.def_abstract_eval(lambda x, *, bridge, axis: _resize(x, axis, bridge.rows))
to_local_p.def_abstract_eval(lambda x, *, bridge, axis: _resize(x, axis, bridge.rows_here))

ad.deflinear2(to_global_p, lambda ct, _, **params: [to_local_p.bind(ct, **params)])
ad.deflinear2(to_local_p, lambda ct, _, **params: [to_global_p.bind(ct, **params)])


def _batching_rule(primitive: Any) -> Any:
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
        'outside that transformation, or use shardlift.pmap(..., view="global"), which takes '
        "global arrays (shardlift.stitch makes them) and works under every transformation."
    )


for _primitive in (to_global_p, to_local_p):
    batching.primitive_batchers[_primitive] = _batching_rule(_primitive)
    mlir.register_lowering(_primitive, _refuse)
