"""fit_leaves: which arrays are used unchanged, rewrapped, copied, moved or refused."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from shardlift.mapping.argument_placement import Fit, fit_leaves
from shardlift.mapping.meshes import DeviceRows, make_mesh
from shardlift.mapping.plan import make_plan
from shardlift.mapping.pmap_options import check_options

DEVICES = np.array(jax.devices())
MESH = make_mesh(DeviceRows(tuple(DEVICES), 8), "i", ())
PLAN = make_plan(lambda: abs, "abs", check_options(abs), MESH, ())
X = np.arange(16, dtype=np.float32).reshape(8, 2)


def fit(leaf, axis=0):
    return fit_leaves(PLAN, "step", [leaf], [axis], [False], "error", lambda: ["x"])


def put(mesh, spec):
    return jax.device_put(X, NamedSharding(mesh, spec))


@pytest.mark.parametrize(
    "leaf",
    [3.0, X, jax.numpy.asarray(X), put(MESH, P("i")), put(MESH, P())],
    ids=["scalar", "numpy", "not committed", "as the plan", "replicated on its mesh"],
)
def test_used_as_it_is(leaf):
    assert fit(leaf) == Fit(None, False)


def test_an_explicit_mesh_is_replaced_without_a_copy():
    leaf = put(Mesh(DEVICES, ("i",), axis_types=(jax.sharding.AxisType.Explicit,)), P("i"))
    (placed,), moved = fit(leaf)
    assert not moved
    assert placed.sharding == PLAN.sharding(0)
    before, after = (
        [s.data.unsafe_buffer_pointer() for s in x.addressable_shards] for x in (leaf, placed)
    )
    assert before == after
