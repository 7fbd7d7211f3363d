"""Moving an array: the right bytes, and the source freed as it goes."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from shardlift import _compat
from shardlift.arrays.resharding import move, rewrap

SHAPE = (8, 16)


def shardings():
    devices = np.array(jax.devices())
    eight, four = Mesh(devices, ("i",)), Mesh(devices[::-1][:4], ("i",))
    grid = Mesh(devices.reshape(2, 4), ("i", "j"))
    return {
        "rows": NamedSharding(eight, P("i")),
        "columns": NamedSharding(eight, P(None, "i")),
        "whole": NamedSharding(eight, P()),
        "four": NamedSharding(four, P("i")),
        "grid": NamedSharding(grid, P("i", "j")),
        "one": jax.sharding.SingleDeviceSharding(devices[3]),
    }


@pytest.mark.parametrize("source", ["rows", "one"])
@pytest.mark.parametrize("target", ["rows", "columns", "four", "grid"])
@pytest.mark.parametrize("free", [False, True])
def test_the_bytes_arrive(source, target, free):
    x = np.arange(128, dtype=np.float32).reshape(SHAPE)
    array = jax.device_put(x, shardings()[source])
    moved = move(array, shardings()[target], free=free)
    assert array.is_deleted() == (free and source != target)
    np.testing.assert_array_equal(moved, x)
    assert moved.sharding == shardings()[target]


def test_typed_keys():
    keys = jax.random.split(jax.random.key(1), 8)
    assert keys.nbytes == 64
    placed = jax.device_put(keys, shardings()["rows"])
    other = NamedSharding(Mesh(np.array(jax.devices()), ("k",)), P("k"))
    assert rewrap(placed, other).sharding == other
    np.testing.assert_array_equal(
        jax.random.key_data(rewrap(placed, other)), jax.random.key_data(keys)
    )
    moved = move(keys, shardings()["rows"], free=True)
    np.testing.assert_array_equal(
        jax.random.key_data(moved), jax.random.key_data(jax.random.split(jax.random.key(1), 8))
    )


def test_rewrap_copies_nothing():
    array = jax.device_put(np.ones(SHAPE, np.float32), shardings()["rows"])
    other = NamedSharding(Mesh(np.array(jax.devices()), ("k",)), P("k"))
    again = rewrap(array, other)
    assert again.sharding == other
    pointers = [
        [shard.data.unsafe_buffer_pointer() for shard in a.addressable_shards]
        for a in (array, again)
    ]
    assert pointers[0] == pointers[1]


@pytest.mark.parametrize("free", [False, True])
def test_weak_types_stay(free, monkeypatch):
    rows, four = shardings()["rows"], shardings()["four"]
    weak = jax.device_put(jax.jit(lambda: jax.numpy.broadcast_to(1, (8,)))(), rows)
    assert weak.weak_type
    other = NamedSharding(Mesh(np.array(jax.devices()), ("j",)), P("j"))
    assert rewrap(weak, other).weak_type
    assert rewrap(weak, other).sharding == other
    monkeypatch.setattr(_compat, "rewrap_as", _compat._rewrap_public)
    assert rewrap(weak, other).weak_type
    moved = move(weak, four, free=free)
    assert moved.weak_type
    np.testing.assert_array_equal(moved, np.ones(8))
    assert weak.is_deleted() == free
