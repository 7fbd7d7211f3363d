"""What is written into packages for pmaps inside one another, run as it is written there."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from shardlift.migrate.helpers import catalogue, emit

_X = np.arange(16, dtype=np.float32).reshape(8, 2)


@pytest.fixture(scope="module")
def emitted() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "emitted"}
    exec(emit(catalogue()), names)
    return names


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((np.ones((16, 2)),), "16"),
        ((np.ones((8, 2)), np.ones((4, 2))), "wants 8 rows"),
        ((np.float32(1),), "wants some rows"),
    ],
)
def test_it_fails_loudly(emitted: dict[str, Any], args: tuple[Any, ...], message: str) -> None:
    mapped = jax.jit(emitted["shard_map_per_device"](lambda *a: a, "i"))
    with pytest.raises(ValueError, match=message):
        mapped(*args)


def test_as_many_devices_as_given_are_needed(emitted: dict[str, Any]) -> None:
    mapped = emitted["shard_map_per_device"](lambda x: x, "i", devices=jax.devices()[:4])
    with pytest.raises(ValueError, match="4 devices"):
        jax.jit(mapped)(_X)


def test_every_helper_has_what_it_needs() -> None:
    for name in catalogue():
        compile(emit([name]), name, "exec")
