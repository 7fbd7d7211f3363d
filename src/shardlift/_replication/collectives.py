"""Rules for collectives: along which axes their results differ.

The same collective over different groups with equal inputs is assumed to give equal bits. JAX's
own types assume it too: a sum over ``i`` of a value that is equal along ``j`` is equal along ``j``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import Any

from shardlift._compat import collective_axes
from shardlift._replication.interpreter import (
    TORN,
    Axes,
    Cause,
    Interpreter,
    MapScope,
    Rule,
    Value,
    all_of,
    axes_of,
    opaque,
    used,
    varying,
)

# The axes along which the result differs: from those of the operand, and those that are gone over.
Result = Callable[[Axes, Axes], Axes]


def _collective(result: Result, why: str = "") -> Rule:
    """A collective of each operand by itself; without ``why``, all members get the same."""

    def rule(_: Interpreter, eqn: Any, operands: list[Value], scope: MapScope) -> list[Value]:
        names = collective_axes(eqn)
        if not names:  # over dimensions of the operand only
            return [used(operand, eqn) for operand in operands]
        if any(name not in scope.names for name in names):
            said = f"goes over {_list_names(names)}, which is not mapped here"
            return opaque(eqn, operands, scope, said)
        over = scope.wide(names)
        if scope.control & over:  # some devices may run this equation more often than others
            said = "is under a predicate that is not equal on its devices"
            return opaque(eqn, operands, scope, said)
        cause = Cause(None, eqn, why or _extent(eqn, scope))
        results: list[Value] = []
        for operand in operands:
            axes = axes_of(operand)
            kept = operand.cause if operand is not None and TORN in axes else cause
            combine = result
            if (axes & over or not _even_groups(eqn, scope)) and _groups(eqn) is not None:
                combine = frozenset.union  # another result in each group
            results.append(varying(combine(axes, over), kept))
        return results

    return rule


def _groups(eqn: Any) -> Any:
    return eqn.params.get("axis_index_groups")


def _even_groups(eqn: Any, scope: MapScope) -> bool:
    """Whether groups, if there are any, have the same number of devices, and leave none out."""
    groups, names = _groups(eqn) or (), collective_axes(eqn)
    devices = math.prod(size for name, size in scope.sizes if name in names)
    return all(len(group) * len(groups) == devices for group in groups)


def _list_names(names: tuple[Hashable, ...]) -> str:
    return ", ".join(map(repr, names))


def _extent(eqn: Any, scope: MapScope) -> str:
    """Over which devices a collective goes that does not go over all."""
    if (groups := _groups(eqn)) is not None:
        return f"goes over groups {list(map(list, groups))}, not over all devices"
    names = collective_axes(eqn)
    rest = tuple(name for name in scope.names if name not in names)
    return f"goes over {_list_names(names)} only, not over {_list_names(rest)}"


def _axis_index(_: Interpreter, eqn: Any, operands: list[Value], scope: MapScope) -> list[Value]:
    names = collective_axes(eqn)
    if any(name not in scope.names for name in names):
        why = f"asks for {_list_names(names)}, which is not mapped here"
        return opaque(eqn, operands, scope, why)
    return [varying(scope.wide(names), Cause(None, eqn, "is a different number on each device"))]


def _ppermute(_: Interpreter, eqn: Any, operands: list[Value], scope: MapScope) -> list[Value]:
    """Of a value that is equal on all senders, only devices that receive nothing have another."""
    receivers = {receiver for _, receiver in eqn.params["perm"]}
    names = collective_axes(eqn)
    if len(receivers) < math.prod(size for name, size in scope.sizes if name in names):
        return list(_partial(_, eqn, operands, scope))
    return list(_exchange(_, eqn, operands, scope))


def _ragged(_: Interpreter, eqn: Any, operands: list[Value], scope: MapScope) -> list[Value]:
    """All operands together decide each device's result."""
    every = all_of(operands)
    return list(_by_place(_, eqn, [every] * len(eqn.outvars), scope))


_together = _collective(lambda axes, over: axes - over)
_by_place = _collective(frozenset.union, "gives each device a different part")
_partial = _collective(frozenset.union, "leaves zeros on devices that receive nothing")
_exchange = _collective(
    lambda axes, over: axes | over if axes & over else axes,
    "sends each device the value of another one",
)

RULES: dict[str, Rule] = {
    "psum": _together,
    "psum_invariant": _together,
    "pmax": _together,
    "pmin": _together,
    "all_gather": _together,
    "all_gather_invariant": _together,
    "pbroadcast": _together,
    "all_to_all": _by_place,
    "reduce_scatter": _by_place,
    "ragged_all_to_all": _ragged,
    "ppermute": _ppermute,
    "axis_index": _axis_index,
}
