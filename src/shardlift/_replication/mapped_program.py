"""The jaxpr of a mapped function's body on one device, with its inputs and outputs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import jax
from jax.sharding import AbstractMesh, AxisType

from shardlift import _compat
from shardlift._replication.control_flow import CALLS, called_jaxpr
from shardlift._replication.primitives import is_jax_primitive
from shardlift.mapping.axes import Call, argument_names
from shardlift.mapping.labels import label_of
from shardlift.mapping.meshes import in_context_mesh
from shardlift.mapping.nesting import Frame, InnerAxes, NeedsInner
from shardlift.mapping.plan import map_block
from shardlift.mapping.site import MappedFunction


class MappedProgram(NamedTuple):
    """A traced function that maps over devices."""

    name: str
    jaxpr: Any  # of the map and everything around it
    inputs: list[str]  # the name of each leaf of the arguments
    output: Any  # the output, with a shape and dtype for each leaf
    static: tuple[int | str, ...]  # positions and names of static arguments


class MapOutput(NamedTuple):
    """An output of the map."""

    number: int


Origin = int | MapOutput | None  # int: the number of an input; None: computed outside the map


class Map(NamedTuple):
    """The map over devices, and the origins of its operands."""

    eqn: Any
    sizes: tuple[tuple[Hashable, int], ...]  # of its axes
    operands: list[Origin]


# ---- tracing


def trace_site(
    site: MappedFunction, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> MappedProgram:
    """Trace a pmap for these arguments. Uses no devices: there may be fewer than rows."""
    call, options = site.take_apart(args, kwargs), site.options
    leaves = [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
        for aval in map(jax.typeof, call.leaves)
    ]
    inner: InnerAxes = ()
    while True:
        try:
            jaxpr, output = _trace_block(site, call, leaves, inner)
        except NeedsInner as need:
            inner = (*inner, need.axis)
        else:
            return MappedProgram(site.name, jaxpr, list(site.names(call)), output, options.static)


def _trace_block(
    site: MappedFunction, call: Call, leaves: list[Any], inner: InnerAxes
) -> tuple[Any, Any]:
    axes = ((label_of(site.options.axis_name), call.size), *inner)
    names, sizes = zip(*axes, strict=True)
    mesh: Any = AbstractMesh(sizes, names, axis_types=(AxisType.Auto,) * len(axes))

    def program(leaves: list[Any]) -> Any:
        args, kwargs = call.tree.unflatten(leaves)
        args = site.options.with_static(call.args, args)
        return map_block(site.get_fun(), site.options, Frame(axes, 1), args, kwargs, mesh)

    # A mesh that the caller has set with jax.set_mesh must not be used for tracing.
    with jax.sharding.use_abstract_mesh(mesh) if in_context_mesh() else contextlib.nullcontext():
        return jax.make_jaxpr(program, return_shape=True)(leaves)


def trace_function(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> MappedProgram:
    """Trace a function that maps over devices itself, by ``jax.pmap`` or ``jax.shard_map``."""
    name = getattr(fun, "__name__", type(fun).__name__)
    dynamic = [k for k, arg in enumerate(args) if not _is_static(arg)]
    named = {k: arg for k, arg in kwargs.items() if not _is_static(arg)}
    static: list[int | str] = [k for k in range(len(args)) if k not in dynamic]
    static += kwargs.keys() - named.keys()

    def program(rest: list[Any], named: dict[str, Any]) -> Any:
        given = dict(zip(dynamic, rest, strict=True))
        return fun(*(given.get(k, arg) for k, arg in enumerate(args)), **{**kwargs, **named})

    leaves = [args[k] for k in dynamic]
    jaxpr, output = jax.make_jaxpr(program, return_shape=True)(leaves, named)
    return MappedProgram(
        name, jaxpr, argument_names(fun, tuple(leaves), named, dynamic), output, tuple(static)
    )


def _is_static(arg: Any) -> bool:
    """May it be a static argument? ``jax.pmap`` does not tell which ones are.

    An argument without arrays is not split over devices, static or not: it is the same on all.
    """
    try:
        hash(arg)
    except TypeError:
        return False
    return not any(hasattr(leaf, "dtype") for leaf in jax.tree.leaves(arg))


# ---- the map of a program


def find_map(program: MappedProgram) -> tuple[Map | None, list[Origin]]:
    """The map, if there is exactly one and no loop is around it, and the origin of each output."""
    jaxpr = program.jaxpr.jaxpr
    maps: list[Map] = []
    origins = _origins(jaxpr, list(range(len(jaxpr.invars))), maps)
    return maps[0] if len(maps) == _count_maps(jaxpr) == 1 else None, origins


def _origins(jaxpr: Any, inputs: Sequence[Origin], maps: list[Map]) -> list[Origin]:
    """The origins of the outputs of a jaxpr; its maps are added to ``maps``."""
    known = dict(zip(map(id, jaxpr.invars), inputs, strict=True))
    for eqn in jaxpr.eqns:
        operands = [known.get(id(var)) for var in eqn.invars]
        known.update(zip(map(id, eqn.outvars), _outputs(eqn, operands, maps), strict=True))
    return [known.get(id(var)) for var in jaxpr.outvars]


def _outputs(eqn: Any, operands: list[Origin], maps: list[Map]) -> Sequence[Origin]:
    name = eqn.primitive.name if is_jax_primitive(eqn.primitive) else ""
    axes = _compat.map_axes(eqn) if name == "shard_map" else None
    if axes:
        maps.append(Map(eqn, tuple(axes.items()), operands))
        return [MapOutput(k) for k in range(len(eqn.outvars))]
    inner = called_jaxpr(eqn) if name in CALLS else None
    if inner is not None and len(inner.outvars) == len(eqn.outvars):
        return _origins(inner, operands, maps)
    return [None] * len(eqn.outvars)


def _count_maps(jaxpr: Any) -> int:
    """How many maps over devices there are that are not inside another one."""
    count = 0
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "shard_map":
            count += 1
        else:
            count += sum(map(_count_maps, _compat.inner_jaxprs(eqn.params)))
    return count
