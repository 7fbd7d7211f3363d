"""A pmapped call under a transformation, in a job of many processes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from shardlift.mapping.axes import Axis, prefix_leaves
from shardlift.mapping.call import Call, with_static
from shardlift.mapping.options import Options
from shardlift.mapping.plan import Plan
from shardlift.mapping.processes.views import to_global, to_local


def call_traced(options: Options, plan: Plan, call: Call) -> Any:
    """The call, made of conversions and a program that transformations know how to go through.

    A value that goes whole to every device is a row for each of them here, and an output
    without a device axis is the first row of this process: then every gradient is the sum
    over the rows of this process, as it was with the old pmap.
    """
    bridge = plan.bridge
    assert bridge is not None
    leaves = [
        to_global(_row_each(leaf, axis, bridge.rows_here), bridge, axis or 0)
        for leaf, axis in zip(call.leaves, call.axes, strict=True)
    ]
    args, kwargs = jax.tree.unflatten(call.tree, leaves)
    out = plan.rowwise(*with_static(options, call.args, args), **kwargs)
    out_axes = prefix_leaves(options.out_axes, out, "out_axes")
    out_leaves, tree = jax.tree.flatten(out)
    rows = [
        to_local(leaf, bridge, axis or 0)[0] if axis is None else to_local(leaf, bridge, axis)
        for leaf, axis in zip(out_leaves, out_axes, strict=True)
    ]
    return jax.tree.unflatten(tree, rows)


def _row_each(leaf: Any, axis: Axis, rows: int) -> Any:
    if axis is not None:
        return leaf
    leaf = jnp.asarray(leaf)
    return jnp.broadcast_to(leaf, (rows, *leaf.shape))
