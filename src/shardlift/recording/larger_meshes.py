"""The program of a call for more devices than there are: lowered on an abstract mesh."""

from __future__ import annotations

import math
from typing import Any

import jax
from jax.sharding import AbstractMesh

from shardlift.capture.schema import LargerMesh
from shardlift.mapping.axes import Axis, prefix_leaves, shape_of
from shardlift.mapping.call import Call, with_static
from shardlift.mapping.nesting import Frame
from shardlift.mapping.plan import Plan, map_block
from shardlift.mapping.site import Site
from shardlift.recording.programs import collectives
from shardlift.recording.site_records import clip


def lower_for(site: Site, call: Call, plan: Plan, devices: int) -> LargerMesh:
    """Trace and lower the program of a call for a mesh with ``devices`` devices.

    The axis of the pmap is made longer; each device works on a block of the same size. An error
    of the function is part of the answer: its shapes may depend on the number of devices.
    """
    label, *others = plan.mesh.axis_names
    rows = max(1, devices // math.prod(plan.mesh.shape[name] for name in others))
    sizes = {**plan.mesh.shape, label: rows}
    axes = {clip(str(name)): size for name, size in sizes.items()}
    try:
        traced = _trace(site, call, plan, sizes)
        traced.lower(lowering_platforms=(plan.mesh.devices.flat[0].platform,))
    except Exception as error:
        first_line = str(error).strip().partition("\n")[0]
        return LargerMesh(axes, error=clip(f"{type(error).__name__}: {first_line}"))
    leaves = jax.tree.leaves(traced.out_info)
    split = prefix_leaves(site.options.out_axes, traced.out_info, "out_axes")
    nbytes = (
        leaf.size * leaf.dtype.itemsize // (1 if axis is None else rows)
        for leaf, axis in zip(leaves, split, strict=True)
    )
    return LargerMesh(axes, collectives(traced.jaxpr.jaxpr), sum(nbytes))


def _trace(site: Site, call: Call, plan: Plan, sizes: dict[Any, int]) -> Any:
    options, label = site.options, plan.label
    mesh = AbstractMesh(tuple(sizes.values()), tuple(sizes), axis_types=plan.mesh.axis_types)
    frame = Frame(axes=((label, sizes[label]), *plan.inner), depth=1)
    fun = site.get_fun()

    def program(*args: Any, **kwargs: Any) -> Any:
        return map_block(fun, options, frame, args, kwargs, mesh)

    types = [
        _longer(leaf, axis, sizes[label]) for leaf, axis in zip(call.leaves, call.axes, strict=True)
    ]
    dynamic, kwargs = jax.tree.unflatten(call.tree, types)
    args = with_static(options, call.args, dynamic)
    return jax.jit(program, static_argnums=options.static).trace(*args, **kwargs)


def _longer(leaf: Any, axis: Axis, rows: int) -> jax.ShapeDtypeStruct:
    shape, kind = list(shape_of(leaf)), jax.typeof(leaf)
    if axis is not None:
        shape[axis] = rows
    return jax.ShapeDtypeStruct(shape, kind.dtype, weak_type=kind.weak_type)
