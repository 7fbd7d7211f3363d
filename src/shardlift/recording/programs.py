"""The collectives of a traced program, and which of them are in a backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shardlift import _compat
from shardlift.capture.schema import Collective
from shardlift.mapping.explanation import COLLECTIVES
from shardlift.recording.caller import is_glue, shown

_MOVING = COLLECTIVES - {"axis_index"}


def collectives(jaxpr: Any) -> tuple[Collective, ...]:
    """The collectives of one call, by kind, separately for a backward pass.

    A collective of a backward pass is the transpose of one in the function that is
    differentiated (or stands in its custom rule): the gradient goes through it.
    """
    lines: dict[tuple[str, bool], dict[str, None]] = {}
    for kind, gradient, eqn in _walk(jaxpr, ""):
        lines.setdefault((kind, gradient), {}).update(dict.fromkeys(_line(eqn)))
    return tuple(Collective(*key, tuple(at)) for key, at in lines.items())


def _walk(jaxpr: Any, around: str) -> Iterator[tuple[str, bool, Any]]:
    """Each equation with a collective, and whether it is in a backward pass."""
    for eqn in jaxpr.eqns:
        transforms = f"{around}/{_compat.transforms_of(eqn)}"
        if eqn.primitive.name in _MOVING:
            # What `jax.checkpoint` computes again in a backward pass is of the forward one.
            backward = "transpose(" in transforms.rpartition("rematted_computation")[2]
            yield eqn.primitive.name, backward, eqn
        for inner in _compat.inner_jaxprs(eqn.params):
            yield from _walk(inner, transforms)


def _line(eqn: Any) -> tuple[str, ...]:
    """The program's own line behind an equation, if it is known."""
    for file, line, _ in _compat.lines_of(eqn):
        if not is_glue(file):
            return (f"{shown(file)}:{line}",)
    return ()
