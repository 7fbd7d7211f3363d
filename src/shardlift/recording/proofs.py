"""Which outputs of a traced program are surely the same on all devices, and on what condition.

`migrate --to global` takes the device axis off what is the same everywhere. It runs nothing, so
the proof has to be in the capture: for each output the arguments that have to be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import jax

# Now: imported in the middle of a run, it makes JAX trace every program once more (0.12.0).
import jax.extend.core.primitives
from jax.tree_util import keystr

from shardlift._replication.program import Program
from shardlift._replication.proof import prove
from shardlift.capture.proofs import joined
from shardlift.capture.schema import Proof
from shardlift.recording.field_proofs import Needs, field_needs
from shardlift.recording.site_records import clip

_Name = TypeVar("_Name", int, str)
MOST_ARGUMENTS = 16  # that are told apart; of more, an output needs all
MOST_PARTS = 64
MOST_VARYING = 8


def proofs(
    jaxpr: Any,
    output: Any,
    names: Sequence[str],
    given: Sequence[tuple[int | None, Any]],
    seen: set[int],
) -> tuple[Proof, ...]:
    """A proof for each part of ``output``: its elements, or itself if it is one array.

    ``given`` has the position of the argument that each input belongs to, None for one that is
    given by name, and its path in there; ``seen`` are the positions of the arguments that were
    equal when looked at.
    """
    program = Program("the program", jaxpr, list(names), output, ())
    owners = [owner for owner, _ in given]

    def outcomes(equal: list[bool]) -> list[Any]:
        return list(prove(program, equal).outputs.values())

    def proven(equal: Collection[int]) -> list[Any]:
        return outcomes([owner in equal for owner in owners])

    needs = _needs(proven, {owner for owner in owners if owner is not None})
    paths = [path for path, _ in jax.tree_util.tree_flatten_with_path(output)[0]]
    verdicts = proven(seen)
    varying = _varying(paths, verdicts)
    parts: dict[str, Proof] = {}
    for path, need, said in zip(paths, needs, verdicts, strict=True):
        part, leaf = "output" + keystr(path[:1]), "output" + keystr(path)
        why = "" if said else str(said).removeprefix("not proven: ")
        new = Proof(clip(part), 1, need, clip(leaf) if why else "", clip(why))
        parts[part] = joined(parts[part], new) if part in parts else new
    fields = field_needs(paths, given, outcomes, _needs)
    found = [
        replace(proof, varying=varying.get(part, ()), fields=_fields_of(part, fields))
        for part, proof in parts.items()
    ]
    return tuple(found[:MOST_PARTS])


def _fields_of(part: str, fields: dict[str, Needs]) -> Needs:
    """The fields of a part of the output; of the output itself, each field is a part."""
    own = {name: need for name, need in fields.get("output", {}).items() if name == part}
    return fields.get(part, own)


def _varying(paths: Sequence[Any], verdicts: Sequence[Any]) -> dict[str, tuple[str, ...]]:
    """For each part of the output of which a half is proven: the other half, by its keys."""
    halves: dict[str, dict[str, bool]] = {}
    for path, verdict in zip(paths, verdicts, strict=True):
        inner = halves.setdefault("output" + keystr(path[:1]), {})
        name = clip("output" + keystr(path[:2]))
        inner[name] = inner.get(name, True) and bool(verdict)
    return {
        part: tuple(name for name, proven in inner.items() if not proven)[:MOST_VARYING]
        for part, inner in halves.items()
        if any(inner.values())
    }


def _needs(
    proven: Callable[[Collection[_Name]], list[Any]], positions: set[_Name]
) -> list[tuple[_Name, ...] | None]:
    """For each output, the positions of the arguments, or their fields, that its proof needs."""
    everything = tuple(sorted(positions))
    best = [bool(one) for one in proven(positions)]
    if len(positions) > MOST_ARGUMENTS:
        return [everything if fine else None for fine in best]
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
