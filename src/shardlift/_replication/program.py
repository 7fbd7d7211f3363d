"""The jaxpr of a mapped function's body on one device, with its inputs and outputs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax.sharding import AbstractMesh, AxisType

from shardlift import _compat
from shardlift._replication.control import CALLS, called_jaxpr
from shardlift.mapping.axes import argument_names
from shardlift.mapping.call import Call, with_static
from shardlift.mapping.labels import label_of
from shardlift.mapping.meshes import given_local_devices, in_context_mesh
from shardlift.mapping.nesting import Frame, InnerAxes, NeedsInner
from shardlift.mapping.options import Options
from shardlift.mapping.plan import map_block
from shardlift.mapping.site import Site


class Program(NamedTuple):
    """A traced function that maps over devices."""

    name: str
    jaxpr: Any  # of the map and everything around it
    inputs: list[str]  # the name of each leaf of the arguments
    output: Any  # the output, with a shape and dtype for each leaf
    static: tuple[int, ...]  # positions of static arguments


class Map(NamedTuple):
    """A map over devices; for each operand the number of the program's input, or None."""

    eqn: Any
    operands: list[int | None]


class Result(NamedTuple):
    """An output of a program that is an output of a map."""

    map: Map
    number: int


# ---- tracing


def trace_site(site: Site, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Program:
    """Trace a pmap for these arguments. Uses no devices: there may be fewer than rows."""
    call = site.take_apart(args, kwargs)
    rows = call.size * _processes(site.options)
    leaves = [
        _abstract(leaf, axis, rows) for leaf, axis in zip(call.leaves, call.axes, strict=True)
    ]
    inner: InnerAxes = ()
    while True:
        try:
            jaxpr, output = _trace_block(site, call, leaves, rows, inner)
        except NeedsInner as need:
            inner = (*inner, need.axis)
        else:
            names = list(site.names(call))
            return Program(site.name, jaxpr, names, output, site.options.static)


def _trace_block(
    site: Site, call: Call, leaves: list[Any], rows: int, inner: InnerAxes
) -> tuple[Any, Any]:
    label = label_of(site.options.axis_name)
    axes = ((label, rows), *inner)
    mesh: Any = AbstractMesh(
        tuple(size for _, size in axes),
        tuple(name for name, _ in axes),
        axis_types=(AxisType.Auto,) * len(axes),
    )

    def program(leaves: list[Any]) -> Any:
        args, kwargs = call.tree.unflatten(leaves)
        args = tuple(with_static(site.options, call.args, args))
        return map_block(site.get_fun(), site.options, Frame(axes, 1), args, kwargs, mesh)

    # A mesh that the caller has set with jax.set_mesh must not be used for tracing.
    with jax.sharding.use_abstract_mesh(mesh) if in_context_mesh() else contextlib.nullcontext():
        return jax.make_jaxpr(program, return_shape=True)(leaves)


def _processes(options: Options) -> int:
    """The number of processes that bring rows: each brings those of its own call."""
    if options.view == "global":
        return 1
    if options.devices is None:
        return jax.process_count(options.backend)
    return len(options.devices) // len(given_local_devices(options))


def _abstract(leaf: Any, axis: int | None, rows: int) -> jax.ShapeDtypeStruct:
    aval = jax.typeof(leaf)
    shape = list(aval.shape)
    if axis is not None:
        shape[axis] = rows
    return jax.ShapeDtypeStruct(shape, aval.dtype, weak_type=aval.weak_type)


def trace_function(
    fun: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Program:
    """Trace a function that maps over devices itself, by ``jax.pmap`` or ``jax.shard_map``."""
    name = getattr(fun, "__name__", type(fun).__name__)
    static = tuple(k for k, arg in enumerate(args) if not _traceable(arg))
    dynamic = [k for k in range(len(args)) if k not in static]

    def program(rest: list[Any], kwargs: dict[str, Any]) -> Any:
        given = dict(zip(dynamic, rest, strict=True))
        return fun(*(given.get(k, arg) for k, arg in enumerate(args)), **kwargs)

    leaves = [args[k] for k in dynamic]
    try:
        jaxpr, output = jax.make_jaxpr(program, return_shape=True)(leaves, kwargs)
    except NameError as error:
        error.add_note(
            f"{name} is not mapped: pass the result of pmap, or the name of the axis, "
            f"shardlift.replication({name}, *args, axis_name=...)."
        )
        raise
    return Program(name, jaxpr, argument_names(fun, tuple(leaves), kwargs, dynamic), output, static)


def _traceable(arg: Any) -> bool:
    """Can it be an argument of a traced function? If not, it was static in ``jax.pmap``."""
    try:
        for leaf in jax.tree.leaves(arg):
            jax.typeof(leaf)
    except TypeError:
        return False
    return True


# ---- the maps of a program


def find_results(program: Program) -> tuple[list[Map], list[Result | None]]:
    """The maps, and for each output the map that computed it; None if no map did."""
    jaxpr = program.jaxpr.jaxpr
    maps: list[Map] = []
    origins = _origins(jaxpr, list(range(len(jaxpr.invars))), maps)
    return maps, [origin if isinstance(origin, Result) else None for origin in origins]


def _origins(jaxpr: Any, inputs: list[Any], maps: list[Map]) -> list[Any]:
    """For each output: the number of an input, the result of a map, or None."""
    known = dict(zip(map(id, jaxpr.invars), inputs, strict=True))
    for eqn in jaxpr.eqns:
        operands = [known.get(id(var)) for var in eqn.invars]
        outputs: list[Any] = []
        if eqn.primitive.name == "shard_map" and _compat.map_axes(eqn):
            numbers = [given if isinstance(given, int) else None for given in operands]
            maps.append(Map(eqn, numbers))
            outputs = [Result(maps[-1], k) for k in range(len(eqn.outvars))]
        elif eqn.primitive.name in CALLS:
            inner = called_jaxpr(eqn)
            outputs = [] if inner is None else _origins(inner, operands, maps)
        known.update(zip(map(id, eqn.outvars), outputs, strict=False))
    return [known.get(id(var)) for var in jaxpr.outvars]
