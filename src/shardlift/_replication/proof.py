"""``shardlift.replication``: which outputs of a pmapped function are equal on all devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from shardlift import _compat
from shardlift._replication import collectives, control_flow
from shardlift._replication.interpreter import TORN, Cause, Interpreter, MapScope, Value
from shardlift._replication.mapped_program import (
    Map,
    MapOutput,
    MappedProgram,
    Origin,
    find_map,
    trace_function,
    trace_site,
)
from shardlift._replication.outcome import Equation, NotProven, Proven, Replication
from shardlift.arrays.paths import leaf_paths
from shardlift.mapping.pmap_options import positional_names
from shardlift.mapping.registry import site_behind

RULES = {**collectives.RULES, **control_flow.RULES}


def replication(fun: Callable[..., Any], *args: Any, equal: Any = (), **kwargs: Any) -> Replication:
    """Prove which outputs of ``fun`` are equal on all devices, bit by bit.

    The function is traced, not run, and needs no devices. The proof is sound: it may miss that an
    output is equal on all devices, but a proven output is, as long as equal programs on equal
    inputs give equal bits on devices of one kind.

    Args:
      fun: the result of `shardlift.pmap` or ``jax.pmap``, or a jitted ``shard_map``.
      *args: the arguments of a call; arrays, or anything with a shape and a dtype.
      equal: which mapped arguments are the same on all devices, by position or name:
        ``equal=(0, "rng")``. Arguments with ``in_axes=None`` are always equal.
      **kwargs: arguments of ``fun`` passed by keyword.

    >>> import jax.numpy as jnp, shardlift
    >>> def step(w, x):
    ...     return w - jax.lax.pmean(w * x, "i"), w * x
    >>> p_step = shardlift.pmap(step, axis_name="i")
    >>> result = replication(p_step, jnp.ones(8), jnp.ones(8), equal=0)
    >>> result.proven
    (True, False)
    """
    if not callable(fun):
        raise TypeError(f"replication needs a function, got {fun!r}")
    place = _compat.place_in_job()
    if place is not None and place[1] > 1:  # `jax.process_index()`, for one, is a constant in each
        raise ValueError(
            "in a job of several processes nothing can be proven: each may trace another program. "
            "Trace it in one process, with a jax.ShapeDtypeStruct for the rows of all."
        )
    site = site_behind(fun)
    program = trace_site(site, args, kwargs) if site else trace_function(fun, args, kwargs)
    return prove(program, equal_leaves(equal, fun, args, kwargs, program.static))


def equal_leaves(
    equal: Any,
    fun: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    static: tuple[int | str, ...] = (),
) -> list[bool]:
    """One flag for each leaf of ``(args, kwargs)``, static arguments left out.

    >>> def fun(state, batch): ...
    >>> equal_leaves("state", fun, ({"w": 1.0, "b": 2.0}, 3.0), {})
    [True, True, False]
    """
    named = tuple(equal) if isinstance(equal, tuple | list | set | frozenset) else (equal,)
    if not all(type(name) in (int, str) for name in named):
        raise TypeError(f"equal takes positions and names of arguments; got {equal!r}.")
    # Position or name -> the position, or the name of an argument that is passed by keyword.
    known: dict[Any, int | str] = {k: k % len(args) for k in range(-len(args), len(args))}
    names = positional_names(fun)[: len(args)]
    known |= {name: k for k, name in enumerate(names)} | {name: name for name in kwargs}
    for name in named:
        if name not in known:
            there = ", ".join([*names, *kwargs]) or f"{len(args)} positional ones"
            raise ValueError(
                f"equal names an argument {name!r} that does not exist: the arguments are {there}."
            )
    chosen = {known[name] for name in named}
    given: list[tuple[int | str, Any]] = [*enumerate(args), *sorted(kwargs.items())]
    return [k in chosen for k, arg in given if k not in static for _ in jax.tree.leaves(arg)]


def prove(program: MappedProgram, equal: list[bool]) -> Replication:
    """Prove it for a traced program; ``equal`` has a flag for each leaf of its arguments."""
    mapped, origins = find_map(program)
    if mapped is None:
        raise ValueError(
            f"{program.name} does not map over devices, or does so more than once, so there is "
            "nothing to prove. Pass the result of one pmap."
        )
    scope = MapScope(mapped.sizes)
    inputs: list[Value] = []  # the operands, as the body of the map sees them
    before = Cause(None, None, "is computed before the map")
    for origin, spec in zip(mapped.operands, mapped.eqn.params["in_specs"], strict=True):
        cause = Cause(origin) if isinstance(origin, int) else before
        known, wide = isinstance(origin, int) and equal[origin], scope.wide(scope.names)
        inputs.append(None if known else control_flow.enter_map(None, spec, wide, cause))
    values = Interpreter(RULES).run(mapped.eqn.params["jaxpr"], inputs, scope)
    outcomes = [_outcome(program, origin, mapped, values) for origin in origins]
    paths = [path for path, _ in leaf_paths(program.output)]
    tree: Any = jax.tree.structure(program.output)
    proven = tree.unflatten([bool(outcome) for outcome in outcomes])
    outputs = dict(zip(paths, outcomes, strict=True))
    return Replication(program.name, dict(mapped.sizes), outputs, proven)


def _outcome(
    program: MappedProgram, origin: Origin, mapped: Map, values: list[Value]
) -> Proven | NotProven:
    if not isinstance(origin, MapOutput):
        return NotProven(None, None, "is computed outside the map", ())
    value = values[origin.number]
    if value is None:
        return Proven()
    cause, names = value.cause, (name for name, _ in mapped.sizes)
    return NotProven(
        argument=None if cause.input is None else program.inputs[cause.input],
        equation=_equation(cause.eqn),
        why=cause.why,
        along=() if TORN in value.axes else tuple(n for n in names if n not in value.axes),
    )


def _equation(eqn: Any) -> Equation | None:
    """An equation for display; None for the map's own, which adds the device axis."""
    if eqn is None:
        return None
    line = _compat.source_line(eqn)
    if line is None and eqn.primitive.name == "broadcast_in_dim":
        return None
    return Equation(eqn.primitive.name, line)
