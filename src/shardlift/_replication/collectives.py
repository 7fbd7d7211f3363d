"""Rules for collectives: each device's result as a function of the inputs of its group.

The same collective over different groups with equal inputs is assumed to give equal bits. JAX's
own types assume it too: a sum over ``i`` of a value that is equal along ``j`` is equal along ``j``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

from shardlift._compat import collective_axes
from shardlift._replication.interpreter import (
    Cause,
    Interpreter,
    MapScope,
    Rule,
    Value,
    all_of,
    opaque,
    used,
    varying,
)
from shardlift._replication.partition import Classes, Groups, coordinates, groups_of, partition

# The result on a device, as a value to compare: from the classes of the inputs of its group, from a
# number that groups with the same classes share, and from its place in the group.
Key = Callable[[tuple[int, ...], int, int], Hashable]


@functools.lru_cache(maxsize=256)
def _exchange(classes: Classes | None, groups: Groups, size: int, key: Key) -> Classes | None:
    keys: list[Hashable] = [("none", point) for point in range(size)]
    numbers: dict[tuple[int, ...], int] = {}
    for group in groups:
        given = tuple([0 if classes is None else classes[point] for point in group])
        number = numbers.setdefault(given, len(numbers))
        for place, point in enumerate(group):
            keys[point] = key(given, number, place)
    return partition(keys)


def _collective(key: Key, why: str) -> Rule:
    """A collective of each operand by itself."""

    def rule(_: Interpreter, eqn: Any, operands: list[Value], scope: MapScope) -> list[Value]:
        names = collective_axes(eqn)
        if not names:  # over dimensions of the operand only
            return [used(operand, eqn) for operand in operands]
        if any(name not in scope.space.names for name in names):
            return opaque(eqn, scope, f"goes over {_list_names(names)}, which is not mapped here")
        given = eqn.params.get("axis_index_groups")
        groups = groups_of(scope.space, names, given and tuple(map(tuple, given)))
        control = scope.control
        if control and any(len({control[member] for member in group}) > 1 for group in groups):
            # Some members may run this equation more often than others.
            return opaque(eqn, scope, "is under a predicate that is not equal on its devices")
        results: list[Value] = []
        for operand in operands:
            classes = operand and operand.classes
            result = _exchange(classes, groups, scope.space.size, key)
            cause = Cause(None, eqn, why or _extent(eqn, scope))
            torn = operand is not None and operand.torn
            results.append(operand if torn else varying(result, cause))
        return results

    return rule


def _list_names(names: tuple[Hashable, ...]) -> str:
    return ", ".join(map(repr, names))


def _extent(eqn: Any, scope: MapScope) -> str:
    """Over which devices a collective goes that does not go over all."""
    groups = eqn.params.get("axis_index_groups")
    if groups is not None:
        return f"goes over groups {list(map(list, groups))}, not over all devices"
    names = collective_axes(eqn)
    rest = tuple(name for name in scope.space.names if name not in names)
    return f"goes over {_list_names(names)} only, not over {_list_names(rest)}"


def _axis_index(_: Interpreter, eqn: Any, __: list[Value], scope: MapScope) -> list[Value]:
    names = collective_axes(eqn)
    if any(name not in scope.space.names for name in names):
        return opaque(eqn, scope, f"asks for {_list_names(names)}, which is not mapped here")
    cause = Cause(None, eqn, "is a different number on each device")
    return [varying(coordinates(scope.space, names), cause)]


def _ppermute(_: Interpreter, eqn: Any, operands: list[Value], scope: MapScope) -> list[Value]:
    source = {to: of for of, to in eqn.params["perm"]}

    def key(given: tuple[int, ...], _: int, place: int) -> Hashable:
        return given[source[place]] if place in source else "zeros"

    why = "sends each device the value of another one"
    if any(operand is None for operand in operands):
        why = "leaves zeros on devices that receive nothing"
    return list(_collective(key, why)(_, eqn, operands, scope))


def _pbroadcast(_: Interpreter, eqn: Any, operands: list[Value], scope: MapScope) -> list[Value]:
    source = eqn.params["source"]
    return list(_collective(lambda given, *_: given[source], "")(_, eqn, operands, scope))


def _ragged(_: Interpreter, eqn: Any, operands: list[Value], scope: MapScope) -> list[Value]:
    """All operands together decide each device's result."""
    every = all_of(operands)
    return list(_by_place(_, eqn, [every] * len(eqn.outvars), scope))


_together = _collective(lambda _, number, __: number, "")
_by_place = _collective(
    lambda _, number, place: (number, place), "gives each device a different part"
)

RULES: dict[str, Rule] = {
    "psum": _together,
    "psum_invariant": _together,
    "pmax": _together,
    "pmin": _together,
    "all_gather": _together,
    "all_gather_invariant": _together,
    "all_to_all": _by_place,
    "reduce_scatter": _by_place,
    "ragged_all_to_all": _ragged,
    "ppermute": _ppermute,
    "pbroadcast": _pbroadcast,
    "axis_index": _axis_index,
}
