"""PmapSharding: what is one, making one, and the specs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shardlift

DEVICES = jax.devices()


@pytest.fixture(autouse=True)
def inside():
    with shardlift.legacy() as uses:
        yield uses


def test_what_a_pmap_returns_is_one():
    kind = jax.sharding.PmapSharding
    x = jnp.ones((8, 3))
    assert isinstance(jax.pmap(lambda x: x)(x).sharding, kind)
    assert isinstance(jax.pmap(lambda x: x, out_axes=1)(x).sharding, kind)
    assert isinstance(jax.device_put_replicated(x, DEVICES).sharding, kind)
    assert isinstance(jax.device_put_sharded(list(x), DEVICES).sharding, kind)
    assert not isinstance(x.sharding, kind)
    mesh = Mesh(np.array(DEVICES).reshape(2, 4), ("a", "b"))
    assert not isinstance(NamedSharding(mesh, P()), kind)
    assert not isinstance(NamedSharding(mesh, P("b")), kind)
    nested = jax.pmap(jax.pmap(lambda x: x))(jnp.ones((2, 4)))
    assert isinstance(nested.sharding, kind)


@pytest.mark.parametrize("dim", [0, 1])
def test_default(dim):
    shape = (8, 3) if dim == 0 else (3, 8)
    sharding = jax.sharding.PmapSharding.default(shape, dim)
    x = jax.device_put(np.ones(shape, np.float32), sharding)
    assert isinstance(x.sharding, jax.sharding.PmapSharding)
    assert x.addressable_shards[0].data.shape[dim] == 1
    assert list(sharding.devices) == DEVICES


def test_default_with_devices():
    sharding = jax.sharding.PmapSharding.default((4, 2), 0, DEVICES[4:])
    assert list(sharding.devices) == DEVICES[4:]
    whole = jax.sharding.PmapSharding.default((4, 2), None, DEVICES[4:])
    assert whole.is_fully_replicated
    with pytest.raises(ValueError, match="One of sharded_dim or devices"):
        jax.sharding.PmapSharding.default((4, 2), None)
    with pytest.raises(ValueError, match="9 rows need 9 devices"):
        jax.sharding.PmapSharding.default((9, 2))


def test_the_type_of_an_output():
    from jax.interpreters import pxla

    assert isinstance(jax.pmap(lambda x: x)(jnp.ones((8, 3))), pxla.ShardedDeviceArray)
    assert not isinstance(jnp.ones(3), pxla.ShardedDeviceArray)
    assert not isinstance(3, pxla.ShardedDeviceArray)
