"""Which outputs of a traced program are the same everywhere.

`migrate --to global` takes the device axis off what is the same everywhere. It runs nothing, so
the proof has to be in the capture: for each output the arguments that have to be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax
from jax.tree_util import keystr

from shardlift.capture.proofs import joined
from shardlift.capture.schema import Proof
from shardlift.recording.site_records import clip


def proofs(
    jaxpr: Any, output: Any, names: Sequence[str], owners: Sequence[int], seen: set[int]
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
