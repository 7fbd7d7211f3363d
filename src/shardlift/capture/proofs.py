"""Combines the proofs of several programs or runs: what holds for all of them."""

import dataclasses
from collections.abc import Sequence

from shardlift.capture.schema import Proof


def joined(old: Proof, new: Proof) -> Proof:
    """What holds for both of two leaves of one part."""
    first = old if old.why else new
    needs = None
    if old.needs is not None and new.needs is not None:
        needs = tuple(sorted({*old.needs, *new.needs}))
    leaves, arrays = old.leaves + new.leaves, old.arrays + new.arrays
    return Proof(old.path, leaves, needs, first.leaf, first.why, arrays)


def of_all_programs(old: Sequence[Proof] | None, new: Sequence[Proof]) -> tuple[Proof, ...]:
    """What holds for all programs so far and for one more; nothing if their outputs differ."""
    if old is None:
        return tuple(new)
    if [proof.path for proof in old] != [proof.path for proof in new]:
        return ()
    return tuple(
        dataclasses.replace(
            joined(before, after),
            leaves=after.leaves,
            arrays=after.arrays if before.arrays == after.arrays else (),
        )
        for before, after in zip(old, new, strict=True)
    )
