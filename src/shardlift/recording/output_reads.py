"""Observes reads of outputs, and finds the site that an array came from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax

import shardlift
from shardlift import arrays
from shardlift.arrays import replicas
from shardlift.arrays.reads import Tell, observe_reads
from shardlift.recording.site_records import SiteRecord

MOST_ORIGINS = 20_000  # kinds of outputs that are remembered


class Origin(NamedTuple):
    """The site that an array may be an output of.

    Arrays of one program share the objects that say their type. If outputs of several sites do,
    a read is not counted for any of them.
    """

    aval: Any  # kept, so that the ids stay their own
    sharding: Any
    record: SiteRecord | None  # None: outputs of several sites


class Origins:
    """Identifies outputs by the type objects that they share, at no cost per call."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Origin] = {}

    def add(self, array: jax.Array, record: SiteRecord) -> None:
        """Remember an output."""
        aval, sharding = array.aval, array.sharding
        key = (id(aval), id(sharding))
        known = self._known.get(key)
        if known is None and len(self._known) < MOST_ORIGINS:
            self._known[key] = Origin(aval, sharding, record)
        elif known is not None and known.record is not record:
            self._known[key] = known._replace(record=None)

    def find(self, array: jax.Array) -> Origin | None:
        """What an array may be; None if it is no output."""
        return self._known.get((id(array.aval), id(array.sharding)))


@contextlib.contextmanager
def observed_reads(tell: Tell) -> Iterator[None]:
    """For the length of a ``with``, ``jax.device_get`` and ``unreplicate`` tell what they read."""
    device_get = observe_reads(jax.device_get, "device_get", tell)
    unreplicate = observe_reads(arrays.unreplicate, "unreplicate", tell)
    places: list[tuple[Any, str, Any]] = [(jax, "device_get", device_get)]
    places += [(module, "unreplicate", unreplicate) for module in (arrays, replicas, shardlift)]
    before = [(module, name, getattr(module, name)) for module, name, _ in places]
    for module, name, function in places:
        setattr(module, name, function)
    try:
        yield
    finally:
        for module, name, function in before:
            setattr(module, name, function)
