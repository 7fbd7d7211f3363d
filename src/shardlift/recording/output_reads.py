"""Seeing outputs being read: which site they came from, on which line."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax

import shardlift
from shardlift import arrays
from shardlift.arrays import replicas

Tell = Callable[[jax.Array, str, int, float], None]


@contextlib.contextmanager
def watched_reads(tell: Tell) -> Iterator[None]:
    """For the length of a ``with``, ``jax.device_get`` and ``unreplicate`` tell what they read."""
    device_get, unreplicate = jax.device_get, arrays.unreplicate
    places: list[tuple[Any, str, Any]] = [
        (jax, "device_get", _telling(device_get, "device_get", tell)),
        *(
            (module, "unreplicate", _telling(unreplicate, "unreplicate", tell))
            for module in (arrays, replicas, shardlift)
        ),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in places]
    for module, name, function in places:
        setattr(module, name, function)
    try:
        yield
    finally:
        for module, name, function in before:
            setattr(module, name, function)


def _telling(function: Callable[..., Any], how: str, tell: Tell) -> Callable[..., Any]:
    @functools.wraps(function)
    def reading(tree: Any, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        out = function(tree, *args, **kwargs)
        seconds = time.perf_counter() - start
        arrays_read = [leaf for leaf in jax.tree.leaves(tree) if is_array(leaf)]
        for leaf in arrays_read:
            tell(leaf, how, _read_bytes(leaf, how), seconds / len(arrays_read))
        return out

    return reading


def is_array(leaf: Any) -> bool:
    """Is this an array that holds values?"""
    return isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)


def _read_bytes(leaf: jax.Array, how: str) -> int:
    """What is brought to the host, or of one row, what is read."""
    nbytes = leaf.size * leaf.dtype.itemsize
    rows = leaf.shape[0] if how == "unreplicate" and leaf.ndim else 1
    return nbytes // max(rows, 1)
