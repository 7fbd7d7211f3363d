"""What is written into packages for pmap itself, run as it is written there."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardlift
from shardlift.migrate.helpers import catalogue, emit

_X = np.arange(16, dtype=np.float32).reshape(8, 2)


@pytest.fixture(scope="module")
def emitted() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "emitted"}
    exec(emit(catalogue()), names)
    return names


def test_a_function_that_is_mapped_again_is_traced_once(emitted: dict[str, Any]) -> None:
    code = "traced = []\ndef f(x):\n    traced.append(x.shape)\n    return x\n"
    exec(code, names := {"__name__": "m"})
    for _ in range(3):
        jax.jit(emitted["shard_map_per_device"](names["f"], "i"))(_X)
    assert names["traced"] == [(2,)]


def test_no_device_is_asked_for_before_the_first_call(
    emitted: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*args: Any) -> None:
        raise AssertionError("asked for devices")

    with monkeypatch.context() as patch:
        for name in ("devices", "local_devices", "process_count", "device_count"):
            patch.setattr(jax, name, never)
        mapped = jax.jit(emitted["shard_map_per_device"](lambda x: x, "i"))
        emitted["host_local"](mapped)
        emitted["jit_per_device"](lambda x: x, "i")


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


def test_axes_from_the_end_are_refused(emitted: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="from the front"):
        emitted["jit_per_device"](lambda x: x, in_axes=-1)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda x, s: x * s, (jnp.ones((8, 2), jnp.bfloat16), 2.0)),
        (lambda x, s: x * s, (np.ones((8, 2), np.int8), 3)),
        (lambda x, s: (x, 1, 2.5, True, s), (np.ones(8, np.complex64), np.float16(2))),
        (lambda x, s: (x, s), (np.ones((8, 0), np.float32), {})),
    ],
)
def test_types_are_those_of_pmap(emitted: dict[str, Any], function: Any, args: Any) -> None:
    expected = shardlift.pmap(function, in_axes=(0, None))(*args)
    got = emitted["jit_per_device"](function, in_axes=(0, None))(*args)
    assert jax.tree.map(_kind, got) == jax.tree.map(_kind, expected)


def _kind(leaf: jax.Array) -> tuple[Any, ...]:
    return leaf.shape, leaf.dtype, leaf.weak_type, leaf.sharding.is_fully_replicated


def test_every_helper_has_what_it_needs() -> None:
    for name in catalogue():
        compile(emit([name]), name, "exec")
