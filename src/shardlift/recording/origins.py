"""Finds the site and the output that an array came from, when it is read."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

from shardlift.recording.site_records import SiteRecord

MOST_ORIGINS = 20_000  # kinds of outputs that are remembered


class Origin(NamedTuple):
    """The outputs that an array may be.

    Arrays of one program share the objects that say their type, with each other if the types
    are equal: then it is one of them, and from several sites it is not counted for any.
    """

    aval: Any  # kept, so that the ids stay their own
    sharding: Any
    records: frozenset[SiteRecord]
    paths: tuple[str, ...]


class Origins:
    """Identifies outputs by the type objects that they share, at no cost per call."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Origin] = {}

    def add(self, array: jax.Array, record: SiteRecord, path: str) -> None:
        """Remember an output."""
        aval, sharding = array.aval, array.sharding
        key = (id(aval), id(sharding))
        known = self._known.get(key)
        if known is None and len(self._known) >= MOST_ORIGINS:
            return
        records = known.records if known else frozenset()
        paths = known.paths if known and record in records else ()
        if path not in paths:
            paths = (*paths, path)
        self._known[key] = Origin(aval, sharding, records | {record}, paths)

    def find(self, array: jax.Array) -> Origin | None:
        """What an array may be; None if it is no output."""
        return self._known.get((id(array.aval), id(array.sharding)))
