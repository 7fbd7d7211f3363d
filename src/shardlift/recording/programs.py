"""What a traced program shows: its collectives, and which of its outputs are the same everywhere.

`migrate --to global` takes the device axis off what is the same everywhere. It runs nothing, so
the proof has to be in the capture: for each output the arguments that have to be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import jax
from jax.tree_util import keystr

from shardlift import _compat
from shardlift.capture.proofs import joined
from shardlift.capture.schema import Collective, Proof
from shardlift.mapping.explanation import COLLECTIVES
from shardlift.recording.caller import is_glue, shown
from shardlift.recording.site_records import clip

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


# ---- what is the same everywhere


def proofs(
    jaxpr: Any,
    output: Any,
    names: Sequence[str],
    owners: Sequence[int],
    seen: set[int],
) -> tuple[Proof, ...]:
    """A proof for each part of ``output``: its elements, or itself if it is one array.

    ``owners`` has the position of the argument that each input belongs to; ``seen`` are the
    positions of the arguments that were equal when looked at.
    """
    from shardlift._replication.mapped_program import MappedProgram
    from shardlift._replication.proof import prove

    program = MappedProgram("the program", jaxpr, list(names), output, ())

    def proven(equal: Collection[int]) -> list[Any]:
        return list(prove(program, [owner in equal for owner in owners]).outputs.values())

    needs = _needs(proven, {*owners})
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(output)[0]]
    parts: dict[str, Proof] = {}
    for path, need, said in zip(paths, needs, proven(seen), strict=True):
        part, leaf = "output" + keystr(path[:1]), "output" + keystr(path)
        why = "" if said else str(said).removeprefix("not proven: ")
        new = Proof(clip(part), 1, need, clip(leaf) if why else "", clip(why), arrays=(clip(leaf),))
        parts[part] = joined(parts[part], new) if part in parts else new
    return tuple(parts.values())


def _needs(
    proven: Callable[[Collection[int]], list[Any]], positions: set[int]
) -> list[tuple[int, ...] | None]:
    """For each output, the positions of the arguments that its proof needs."""
    everything = tuple(sorted(positions))
    best = [bool(is_proven) for is_proven in proven(positions)]
    without = {k: proven(positions - {k}) for k in everything}
    wanted = [
        tuple(k for k in everything if not without[k][n]) if fine else None
        for n, fine in enumerate(best)
    ]
    # Each argument alone may be missing; all of those together need not.
    together = {need: proven(set(need)) for need in set(wanted) if need is not None}
    return [
        need if need is None or together[need][n] else everything for n, need in enumerate(wanted)
    ]
