"""A pmap that is called from the body of another one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from shardlift import _compat
from shardlift.mapping.axes import Axis, Call, prefix_leaves, spec_of
from shardlift.mapping.errors import hint_for
from shardlift.mapping.labels import label_of
from shardlift.mapping.nesting import Frame, NeedsInner
from shardlift.mapping.plan import Fun, map_block
from shardlift.mapping.pmap_options import PmapOptions


def call_inner(fun: Fun, options: PmapOptions, call: Call, frame: Frame | None) -> Any:
    """Run on the mesh of the outer pmap, which is asked for one more axis if it has none.

    Without a frame, the call is in a ``shard_map`` of the user's own, or in a derivative rule of
    a pmapped body that is traced after the body itself.
    """
    if options.devices is not None:
        raise ValueError(
            "Nested pmap with explicit devices argument. The inner pmap runs on devices of the "
            "outer one: give devices= to the outermost pmap, as many as all axes need."
        )
    if frame is None:
        return _call_by_vmap(fun, options, call, spread=None)
    axis = (label_of(options.axis_name, frame.depth), call.size)
    taken = frame.axes[frame.depth] if frame.depth < len(frame.axes) else None
    # Compared by text too: two objects that print alike cannot both name an axis of one mesh.
    shadows = any(
        axis[0] == name or str.__eq__(axis[0], name) for name, _ in frame.axes[: frame.depth]
    )
    if _compat.jit_disabled() or shadows or (taken is not None and taken != axis):
        return _call_by_vmap(fun, options, call, spread=None)
    if taken is None:
        raise NeedsInner(*axis)
    deeper = frame._replace(depth=frame.depth + 1)
    try:
        return map_block(fun, options, deeper, call.args, call.kwargs, None)
    except ValueError as error:
        # `fun` closes over values of the outer body. To JAX they belong to another mesh, whose
        # inner axis is not manual yet: a shard_map cannot use them (0.10 to 0.12).
        if getattr(hint_for(error), "name", None) != "context-mesh":
            raise
    return _call_by_vmap(fun, options, call, spread=axis[0])


def _call_by_vmap(fun: Fun, options: PmapOptions, call: Call, spread: str | None) -> Any:
    """Compute the same numbers without a mesh axis, where ``shard_map`` cannot nest.

    With ``spread`` the rows are placed along that mesh axis and the compiler divides the work.
    Without it (the axis belongs to a sibling of another name or size, the name shadows an
    outer one, or jit is disabled) each device of the outer pmap computes all rows.
    """
    structure: list[tuple[Any, list[Axis]]] = []

    def row(leaves: list[Any]) -> list[Any]:
        args, kwargs = call.tree.unflatten(leaves)
        out = fun(*options.with_static(call.args, args), **kwargs)
        structure.append(
            (jax.tree.structure(out), prefix_leaves(options.out_axes, out, "out_axes"))
        )
        return jax.tree.leaves(out)

    def spread_out(leaf: Any, axis: Axis) -> Any:
        if spread is None or axis is None:
            return leaf
        return lax.with_sharding_constraint(leaf, spec_of(axis, spread))

    mapped = jax.vmap(row, (call.axes,), axis_name=options.axis_name, axis_size=call.size)
    leaves = mapped(
        [spread_out(leaf, axis) for leaf, axis in zip(call.leaves, call.axes, strict=True)]
    )
    tree, out_axes = structure[0]
    return tree.unflatten(
        leaf[0] if axis is None else jnp.moveaxis(spread_out(leaf, 0), 0, axis)
        for leaf, axis in zip(leaves, out_axes, strict=True)
    )
