"""The collectives of a traced program, and which of them are in a backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from shardlift import _compat
from shardlift.capture.schema import Collective
from shardlift.mapping.explanation import COLLECTIVES
from shardlift.recording.caller import is_glue, shown

MOST_LINES = 64  # of the lines on which a kind of collective stands
_MOVING = COLLECTIVES - {"axis_index"}


def collectives(jaxpr: Any) -> tuple[Collective, ...]:
    """The collectives of one call, by kind and axes, separately for a backward pass.

    A collective of a backward pass is the transpose of one in the function that is
    differentiated (or stands in its custom rule): the gradient goes through it.
    """
    by_kind: dict[tuple[str, tuple[str, ...], bool], Collective] = {}
    for new in _walk(jaxpr, 1, True, ""):
        key = (new.kind, new.axes, new.gradient)
        old = by_kind.get(key, replace(new, count=0, nbytes=0))
        by_kind[key] = replace(
            new,
            count=old.count + new.count,
            nbytes=old.nbytes + new.nbytes,
            exact=old.exact and new.exact,
            lines=tuple(dict.fromkeys((*old.lines, *new.lines)))[:MOST_LINES],
        )
    return tuple(by_kind.values())


def _walk(jaxpr: Any, times: int, exact: bool, around: str) -> Iterator[Collective]:
    """Each equation with a collective; not ``exact`` in a loop or branch of unknown turns."""
    for eqn in jaxpr.eqns:
        kind = eqn.primitive.name
        transforms = f"{around}/{_compat.transforms_of(eqn)}"
        if kind in _MOVING:
            nbytes = times * sum(_nbytes(operand.aval) for operand in eqn.invars)
            gradient = _in_backward_pass(transforms)
            axes = tuple(map(str, _compat.collective_axes(eqn)))
            yield Collective(kind, axes, times, nbytes, exact, gradient, _line(eqn))
        turns = int(eqn.params.get("length") or 1) if kind == "scan" else 1
        known = exact and kind not in ("while", "cond")
        for inner in _compat.inner_jaxprs(eqn.params):
            yield from _walk(inner, times * turns, known, transforms)


def _in_backward_pass(transforms: str) -> bool:
    # What `jax.checkpoint` computes again in a backward pass is of the forward one.
    return "transpose(" in transforms.rpartition("rematted_computation")[2]


def _nbytes(aval: Any) -> int:
    return int(getattr(aval, "size", 0)) * int(getattr(aval.dtype, "itemsize", 0))


def _line(eqn: Any) -> tuple[str, ...]:
    """The program's own line behind an equation, if it is known."""
    for file, line, _ in _compat.lines_of(eqn):
        if not is_glue(file):
            return (f"{shown(file)}:{line}",)
    return ()
