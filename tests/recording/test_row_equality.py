"""Which leaves are the same on all devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardlift
from shardlift.recording import row_equality
from shardlift.recording.row_equality import compare

DEVICES = jax.local_devices()


def rows(*values):
    return shardlift.device_put_sharded([np.asarray(v) for v in values], DEVICES[: len(values)])


@pytest.mark.parametrize(
    ("leaf", "axis", "equal"),
    [
        (rows(1.0, 1.0, 1.0), 0, True),
        (rows(1.0, 1.0, 2.0), 0, False),
        (rows(np.nan, np.nan), 0, True),  # bit by bit
        (rows(0.0, -0.0), 0, False),
        (np.ones((8, 3)), 0, True),
        (np.arange(8), 0, False),
        (np.ones((3, 8)) * np.arange(8), 1, False),
        (np.ones((3, 8)), 1, True),
        (jnp.ones((8, 3)), 0, True),  # on one device
        (jnp.arange(8), 0, False),
    ],
)
def test_rows(leaf, axis, equal):
    assert compare(leaf, axis).equal is equal


def test_replicas():
    mesh = jax.sharding.Mesh(np.array(DEVICES), "i")
    everywhere = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    same = jax.device_put(np.arange(3.0), everywhere)
    blocks = [jax.device_put(np.arange(3.0) + (k == 5), d) for k, d in enumerate(DEVICES)]
    other = jax.make_array_from_single_device_arrays((3,), everywhere, blocks)
    assert compare(same, None).equal is True
    assert compare(other, None).equal is False


@pytest.mark.parametrize(
    "leaf", [1.0, np.ones(1), jnp.ones(()), rows(1.0), np.array([None, 1]), "text"]
)
def test_nothing_to_compare(leaf):
    assert compare(leaf, None if np.ndim(leaf) == 0 else 0) is None


def test_keys_and_an_array_that_is_gone():
    keys = jax.random.split(jax.random.key(0), 8)
    placed = shardlift.device_put_sharded(list(keys), DEVICES)
    assert compare(placed, 0).equal is False
    gone = rows(1.0, 1.0)
    gone.delete()
    assert compare(gone, 0) is None


def test_the_digest_is_of_the_value():
    assert compare(rows(1.0, 1.0), 0).digest == compare(rows(1.0, 1.0, 1.0), 0).digest
    assert compare(rows(1.0, 1.0), 0).digest != compare(rows(2.0, 2.0), 0).digest


def test_blocks_of_an_accelerator_stay_there(monkeypatch):
    monkeypatch.setattr(row_equality, "SMALL", 4)
    monkeypatch.setattr(row_equality, "on_host", lambda block: False)
    found = compare(rows(np.arange(9.0), np.arange(9.0)), 0)
    assert found.equal
    assert found.digest.startswith("sum:")
    assert not compare(rows(np.arange(9.0), np.ones(9)), 0).equal
