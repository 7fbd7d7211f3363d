"""Observes reads of outputs, and finds the site that an array came from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jax

import shardlift
from shardlift import arrays
from shardlift.arrays import replicas
from shardlift.arrays.reads import Tell, observe_reads
from shardlift.recording.site_records import SiteRecord


class Origins:
    """The sites that arrays may be outputs of, at no cost per call.

    Arrays of one program share the objects that say their type. If outputs of several sites do,
    a read is not counted for any of them.
    """

    def __init__(self) -> None:
        # By these objects, which are kept, so that their ids stay their own.
        self._known: dict[tuple[int, int], tuple[Any, SiteRecord | None]] = {}

    def add(self, array: jax.Array, record: SiteRecord) -> None:
        """Remember an output."""
        kept = array.aval, array.sharding
        key = (id(kept[0]), id(kept[1]))
        same = self._known.get(key, (kept, record))[1] is record
        self._known[key] = (kept, record if same else None)

    def find(self, array: jax.Array) -> list[SiteRecord | None]:
        """The site of an array, or None if it may be one of several; empty if it is no output."""
        known = self._known.get((id(array.aval), id(array.sharding)))
        return [] if known is None else [known[1]]


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
