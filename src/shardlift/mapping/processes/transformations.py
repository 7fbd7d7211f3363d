"""A pmapped call under a JAX transformation, in a job of many processes.

For ``grad``, ``vmap``, ``jvp`` and ``linearize`` the two conversions of `bridge`, local to global
and back, are JAX primitives with rules: each is linear, and the other is its transpose. They
cannot be part of a compiled program, which has one view of its arrays. Under ``jit``, ``scan`` or
``cond`` such a call is therefore refused, where jax.pmap gives a wrong number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir

from shardlift.mapping.axes import Call, prefix_leaves
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
    leaves = []
    for leaf, axis in zip(call.leaves, call.axes, strict=True):
        if axis is None:
            leaf = jnp.broadcast_to(leaf, (bridge.rows_here, *jnp.shape(leaf)))
        leaves.append(to_global_p.bind(leaf, bridge=bridge, axis=axis or 0))
    args, kwargs = jax.tree.unflatten(call.tree, leaves)
    out = plan.rowwise(*options.with_static(call.args, args), **kwargs)
    out_axes = prefix_leaves(options.out_axes, out, "out_axes")
    tree: Any
    out_leaves, tree = jax.tree.flatten(out)
    rows = [
        to_local_p.bind(x, bridge=bridge, axis=a or 0)
        for x, a in zip(out_leaves, out_axes, strict=True)
    ]
    return tree.unflatten(x[0] if a is None else x for x, a in zip(rows, out_axes, strict=True))


# ---- the two conversions


def _conversion(
    name: str, run: Callable[[Any, Bridge, int], Any], rows_of: Callable[[Bridge], int]
) -> Any:
    """A primitive that converts an array whose rows are along ``axis``, one process or all."""
    primitive = jax.extend.core.Primitive(name)
    primitive.def_impl(lambda x, *, bridge, axis: run(x, bridge, axis))

    def resize(aval: Any, *, bridge: Bridge, axis: int) -> Any:
        shape = (*aval.shape[:axis], rows_of(bridge), *aval.shape[axis + 1 :])
        return jax.core.ShapedArray(shape, aval.dtype, weak_type=aval.weak_type)

    def batch(args: Any, dims: Any, **params: Any) -> Any:
        (x,), (dim,) = args, dims
        return primitive.bind(jnp.moveaxis(x, dim, -1), **params), x.ndim - 1

    primitive.def_abstract_eval(resize)
    batching.primitive_batchers[primitive] = batch
    mlir.register_lowering(primitive, _refuse)
    return primitive


def _refuse(*_: Any, **__: Any) -> Any:
    raise ValueError(
        "a pmapped function was called under jit, scan, while, cond or another transformation "
        "that compiles, in a job of many processes. Its arguments are the rows of one process, "
        "and a compiled program cannot go from them to the rows of all: jax.pmap there computes "
        "over the devices of one process and gives a wrong number. Call the pmapped function "
        'outside that transformation, or use shardlift.pmap(..., view="global"), which takes '
        "global arrays (shardlift.stitch makes them) and works under every transformation."
    )


to_global_p = _conversion(
    "shardlift_to_global",
    lambda x, bridge, axis: bridge.to_global(x, axis),
    lambda bridge: bridge.rows,
)
to_local_p = _conversion(
    "shardlift_to_local",
    lambda x, bridge, axis: bridge.to_local(jax.device_put(x, bridge.sharding(axis))),
    lambda bridge: bridge.rows_here,
)
ad.deflinear2(to_global_p, lambda ct, _, **params: [to_local_p.bind(ct, **params)])
ad.deflinear2(to_local_p, lambda ct, _, **params: [to_global_p.bind(ct, **params)])
