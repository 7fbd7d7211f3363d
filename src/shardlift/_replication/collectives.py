"""Rules for collectives: along which axes their results differ.

The same collective over different groups with equal inputs is assumed to give equal bits. JAX's
own types assume it too: a sum over ``i`` of a value that is equal along ``j`` is equal along ``j``.
"""

from typing import Any

from shardlift._compat import collective_axes
from shardlift._replication.interpreter import (
    TORN,
    Cause,
    Interpreter,
    MapScope,
    Rule,
    Value,
    axes_of,
    opaque,
    used,
    varying,
)


def _collective(why: str = "") -> Rule:
    """A collective of each operand by itself; without ``why``, all members get the same."""

    def rule(_: Interpreter, eqn: Any, operands: list[Value], scope: MapScope) -> list[Value]:
        names = collective_axes(eqn)
        if not names:  # over dimensions of the operand only
            return [used(operand, eqn) for operand in operands]
        over = scope.wide(names)
        if scope.control & over:  # some devices may run this equation more often than others
            said = "is under a predicate that is not equal on its devices"
            return opaque(eqn, operands, scope, said)
        apart = bool(why) or eqn.params.get("axis_index_groups") is not None
        cause = Cause(None, eqn, why or _extent(eqn, scope))
        results: list[Value] = []
        for operand in operands:
            axes = axes_of(operand)
            kept = operand.cause if operand is not None and TORN in axes else cause
            results.append(varying(axes | over if apart else axes - over, kept))
        return results

    return rule


def _extent(eqn: Any, scope: MapScope) -> str:
    """Over which devices a collective goes that does not go over all."""
    if (groups := eqn.params.get("axis_index_groups")) is not None:
        return f"goes over groups {list(map(list, groups))}, not over all devices"
    names = collective_axes(eqn)
    rest = (name for name in scope.names if name not in names)
    over, others = (", ".join(map(repr, listed)) for listed in (names, rest))
    return f"goes over {over} only, not over {others}"


def _axis_index(_: Interpreter, eqn: Any, __: list[Value], scope: MapScope) -> list[Value]:
    cause = Cause(None, eqn, "is a different number on each device")
    return [varying(scope.wide(collective_axes(eqn)), cause)]


_together = _collective()
_by_place = _collective("gives each device a different part")

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
    "ppermute": _collective("sends each device the value of another one"),
    "axis_index": _axis_index,
}
