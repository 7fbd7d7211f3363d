from types import SimpleNamespace

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from shardlift import device_put_sharded, local_view, stitch
from shardlift.arrays import global_arrays

DEVICES = jax.devices()
MESH = Mesh(np.array(DEVICES), ("data",))
GRID = Mesh(np.array(DEVICES).reshape(4, 2), ("data", "model"))


def pointers(x: jax.Array) -> list[int]:
    return [shard.data.unsafe_buffer_pointer() for shard in x.addressable_shards]


def test_one_process_places_by_prefix():
    tree = {"x": np.arange(16.0).reshape(8, 2), "p": {"w": np.ones((2, 2)), "b": np.float32(1)}}
    out = stitch(tree, GRID, {"x": P("data", "model"), "p": None})
    assert out["x"].sharding == NamedSharding(GRID, P("data", "model"))
    assert out["p"]["w"].sharding == out["p"]["b"].sharding == NamedSharding(GRID, P())
    np.testing.assert_array_equal(out["x"], tree["x"])


def test_no_copy_where_the_layout_fits():
    x = device_put_sharded([np.full(3, i) for i in range(8)], DEVICES)
    out = stitch(x, MESH, P("data"))
    assert out.sharding == NamedSharding(MESH, P("data"))
    assert pointers(out) == pointers(x)
    assert local_view(out) is out
    assert stitch(2.0, MESH, P()).weak_type  # it is not made anew where it lies right


def test_local_view_leaves_what_is_local():
    tree = {"a": np.ones(3), "b": 1, "c": stitch(np.ones(8), MESH, P("data"))}
    assert all(local_view(tree)[k] is tree[k] for k in tree)


def test_a_dimension_that_does_not_split():
    message = r"dimension 0 of the leaf \['x'\]\[0\] has 6 rows .* over 8 local devices"
    with pytest.raises(ValueError, match=message):
        stitch({"x": [np.ones(6)]}, MESH, P("data"))


def test_too_few_dimensions():
    with pytest.raises(ValueError, match=r"leaf <leaf> has shape \(8,\), too few dimensions"):
        stitch(np.ones(8), GRID, P("data", "model"))


@pytest.mark.parametrize(("mine", "shape"), [(slice(4), (2, 2)), (slice(1, 8, 2), (4, 1))])
def test_the_part_of_a_mesh_of_one_process(monkeypatch, mine, shape):
    part = SimpleNamespace(addressable_devices=set(DEVICES[mine]))
    monkeypatch.setattr(global_arrays, "NamedSharding", lambda mesh, spec: part)
    local = global_arrays.local_mesh.__wrapped__(GRID)
    assert (local.devices.shape, set(local.devices.flat)) == (shape, set(DEVICES[mine]))


def test_devices_that_are_no_block_have_no_mesh(monkeypatch):
    part = SimpleNamespace(addressable_devices={DEVICES[0], DEVICES[3]})
    monkeypatch.setattr(global_arrays, "NamedSharding", lambda mesh, spec: part)
    with pytest.raises(ValueError, match="do not form a block"):
        global_arrays.local_mesh.__wrapped__(GRID)
