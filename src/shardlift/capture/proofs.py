"""Proofs of several programs or runs, combined: what holds for all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeVar

from shardlift.capture.schema import Proof

_Name = TypeVar("_Name", int, str)


def joined(old: Proof, new: Proof) -> Proof:
    """What holds for both of two leaves, or of two programs."""
    first = old if old.why else new
    needs = join_needs(old.needs, new.needs)
    varying = tuple(dict.fromkeys((*old.varying, *new.varying)))
    fields = _join_fields(old.fields, new.fields)
    return Proof(old.path, old.leaves + new.leaves, needs, first.leaf, first.why, varying, fields)


def join_needs(
    one: tuple[_Name, ...] | None, other: tuple[_Name, ...] | None
) -> tuple[_Name, ...] | None:
    """What both of two leaves need; None if one of them is not proven."""
    return None if one is None or other is None else tuple(sorted(set(one + other)))


def _join_fields(
    one: Mapping[str, tuple[str, ...] | None], other: Mapping[str, tuple[str, ...] | None]
) -> dict[str, tuple[str, ...] | None]:
    """What the fields need in both of two programs; nothing if these have other fields."""
    if one.keys() != other.keys():
        return {}
    return {name: join_needs(need, other[name]) for name, need in one.items()}


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
