"""Proofs of several programs or runs, combined: what holds for all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from shardlift.capture.schema import Proof


def joined(old: Proof, new: Proof) -> Proof:
    """What holds for both of two leaves, or of two programs."""
    first = old if old.why else new
    needs = None
    if old.needs is not None and new.needs is not None:
        needs = tuple(sorted({*old.needs, *new.needs}))
    varying = tuple(dict.fromkeys((*old.varying, *new.varying)))
    return Proof(old.path, old.leaves + new.leaves, needs, first.leaf, first.why, varying)


def of_all_programs(old: Sequence[Proof] | None, new: Sequence[Proof]) -> tuple[Proof, ...]:
    """What holds for all programs so far and for one more; nothing if their outputs differ."""
    if old is None:
        return tuple(new)
    if [one.path for one in old] != [one.path for one in new]:
        return ()
    both = (joined(one, other) for one, other in zip(old, new, strict=True))
    return tuple(
        dataclasses.replace(proof, leaves=one.leaves) for proof, one in zip(both, new, strict=True)
    )
