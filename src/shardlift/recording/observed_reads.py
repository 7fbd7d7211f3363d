"""Observing reads of outputs, where no `shardlift.legacy` does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jax

import shardlift
from shardlift import arrays
from shardlift.arrays import replicas
from shardlift.arrays.reads import Tell, observe_reads


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
