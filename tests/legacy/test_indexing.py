"""x[i] on one row a device: one shard, committed nowhere. Everything else as it was."""

import enum

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shardlift
from shardlift import _compat
from shardlift._legacy.indexing import row_buffers

ROWS = np.arange(24, dtype=np.float32).reshape(8, 3)
DEVICES = jax.devices()
STOCK = type(jnp.ones(1)).__getitem__


@pytest.fixture(autouse=True)
def inside():
    with shardlift.legacy() as uses:
        yield uses


@pytest.fixture
def y():
    return jax.pmap(lambda x: x)(ROWS)


@pytest.mark.parametrize("index", [0, 3, 7, -1, -8, np.int32(2), np.int64(-2), np.uint8(5)])
def test_a_row_is_read_where_it_lies(y, index):
    row = y[index]
    np.testing.assert_array_equal(row, ROWS[index])
    assert row.devices() == {DEVICES[int(index) % 8]}
    assert not row.committed


def test_rows_go_together_with_any_array(y, ranks_are_promoted):
    here, there = y[0], y[5]
    np.testing.assert_array_equal(here + there, ROWS[0] + ROWS[5])
    np.testing.assert_array_equal(there + y, ROWS[5] + ROWS)
    np.testing.assert_array_equal(jnp.stack([y[k] for k in range(8)]), ROWS)
    placed = jax.device_put(jnp.ones(3), DEVICES[2])
    assert (there + placed).devices() == {DEVICES[2]}
    np.testing.assert_array_equal(
        jax.pmap(lambda x, w: x + w, in_axes=(0, None))(y, there), ROWS + ROWS[5]
    )
    np.testing.assert_array_equal(
        jax.jit(lambda a, b, c: a + b + c)(here, there, placed), ROWS[0] + ROWS[5] + 1
    )


def test_iteration(y):
    first, *rest = y
    assert len(rest) == 7
    assert [next(iter(row.devices())) for row in (first, *rest)] == DEVICES
    np.testing.assert_array_equal(np.stack([first, *rest]), ROWS)


def test_devices_in_another_order():
    back = jax.pmap(lambda x: x, devices=DEVICES[::-1])(ROWS)
    np.testing.assert_array_equal(back[1], ROWS[1])
    assert back[1].devices() == {DEVICES[6]}


class Two(enum.IntEnum):
    TWO = 2


@pytest.mark.parametrize(
    "index",
    [8, -9, 100, slice(0, 1), (0,), (0, 1), (0, ...), ..., None, True,
     np.array(3), np.array([1, 2]), slice(None, None, -1), (slice(None), 0), Two.TWO],
    ids=repr,
)  # fmt: skip
def test_every_other_index_is_what_it_was(y, index):
    inside, stock = y[index], STOCK(y, index)
    np.testing.assert_array_equal(inside, stock)
    assert (inside.sharding, inside.committed) == (stock.sharding, stock.committed)


MESH = Mesh(np.array(DEVICES), ("i",))
GRID = Mesh(np.array(DEVICES).reshape(2, 4), ("a", "b"))
EXPLICIT = Mesh(np.array(DEVICES), ("i",), axis_types=(AxisType.Explicit,))
OTHERS = {
    "two rows a device": (np.zeros((16, 2), "f4"), NamedSharding(MESH, P("i"))),
    "replicated": (np.zeros((8, 2), "f4"), NamedSharding(MESH, P())),
    "columns": (np.zeros((3, 8), "f4"), NamedSharding(MESH, P(None, "i"))),
    "two rows, four columns": (np.zeros((2, 4), "f4"), NamedSharding(GRID, P("a", "b"))),
    "two rows, copied": (np.zeros((2, 4), "f4"), NamedSharding(GRID, P("a"))),
    "four rows a device, copied": (np.zeros((8, 2), "f4"), NamedSharding(GRID, P("a"))),
    "one device": (np.zeros((8, 2), "f4"), DEVICES[3]),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_every_other_array_is_what_it_was(kind):
    host, place = OTHERS[kind]
    array = jax.device_put(host, place)
    assert row_buffers(array) is None
    inside, stock = array[1], STOCK(array, 1)
    np.testing.assert_array_equal(inside, host[1])
    assert (inside.sharding, inside.committed) == (stock.sharding, stock.committed)


def test_an_explicit_mesh_is_left_alone():
    """There, the type of a row must name the mesh; x[1] raises with or without us."""
    array = jax.device_put(ROWS, NamedSharding(EXPLICIT, P("i")))
    assert row_buffers(array) is None


def test_a_mesh_of_two_axes_along_the_rows():
    array = jax.device_put(ROWS, NamedSharding(GRID, P(("a", "b"))))
    assert array[6].devices() == {DEVICES[6]}
    np.testing.assert_array_equal(array[6], ROWS[6])


def test_scalars_and_weak_types(y):
    out = jax.pmap(lambda x: (x.sum(), 2.0))(ROWS)
    assert out[0][2].shape == ()
    assert float(out[0][2]) == ROWS[2].sum()
    assert out[1][2].weak_type == out[1].weak_type


def test_keys():
    old = jax.random.split(jax.random.PRNGKey(0), 8)
    new = jax.random.split(jax.random.key(0), 8)
    for keys in (old, new):
        out = jax.pmap(lambda k: k)(keys)
        a, b = jax.random.uniform(out[3], (4,)), jax.random.uniform(keys[3], (4,))
        np.testing.assert_array_equal(a, b)
    assert jnp.issubdtype(out[3].dtype, jax.dtypes.prng_key)


def test_under_transformations(y):
    np.testing.assert_array_equal(jax.jit(lambda w: w * y[2])(jnp.ones(3)), ROWS[2])
    gradient = jax.grad(lambda w: (w * y[1]).sum())(jnp.ones(3))
    np.testing.assert_array_equal(gradient, ROWS[1])
    np.testing.assert_array_equal(jax.vmap(lambda w: w * y[4, 0])(jnp.ones(2)), [12, 12])
    np.testing.assert_array_equal(jax.jit(lambda a: a[2])(y), ROWS[2])


def test_a_deleted_array_says_so(y):
    y.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        y[0]


def test_without_the_private_type_indexing_is_left_alone(monkeypatch):
    from shardlift._legacy import indexing
    from shardlift._legacy.patches import Patches

    monkeypatch.setattr(_compat, "array_type", lambda: None)
    patches = Patches()
    indexing.fast_rows(patches, None, patch=True)
    assert patches._undo == []


@pytest.mark.parametrize("place", [lambda x: jax.device_put(x, DEVICES[3]), np.asarray])
def test_uncommitted(place):
    """By private names, or through the host for what has none."""
    free = _compat.uncommit(place(np.arange(3.0)))
    assert not free.committed
    np.testing.assert_array_equal(free, [0, 1, 2])


def test_buffers_and_devices(y, inside):
    buffers = y.device_buffers
    assert [b.shape for b in buffers] == [(3,)] * 8
    assert [next(iter(b.devices())) for b in buffers] == DEVICES
    placed = jax.device_put(jnp.ones(2), DEVICES[5])
    assert placed.device_buffers[0].shape == (2,)
    assert placed.device_buffer.devices() == {DEVICES[5]}
    called, here = placed.device(), placed.device  # pytest takes calls in assertions apart
    assert called == here == DEVICES[5]
    np.testing.assert_array_equal(jax.jit(lambda x: jax.device_put(x, here))(jnp.ones(2)), 1)
    with pytest.raises(ValueError, match="several devices"):
        y.device_buffer  # noqa: B018
    assert inside["jax.Array.device_buffers"] == 2
    assert inside["jax.Array.device()"] == 1
