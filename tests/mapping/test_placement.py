"""fit_leaves: which arrays are used as they are, rewrapped, copied, moved or refused."""

from __future__ import annotations

import warnings

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from shardlift.mapping.meshes import Layout, make_mesh
from shardlift.mapping.options import check_options
from shardlift.mapping.placement import Fit, ReshardWarning, fit_leaves
from shardlift.mapping.plan import make_plan

DEVICES = np.array(jax.devices())
MESH = make_mesh(Layout(tuple(DEVICES), 8), "i", ())
PLAN = make_plan(lambda: abs, "abs", check_options(abs), MESH, ())
X = np.arange(16, dtype=np.float32).reshape(8, 2)


def fit(leaf, axis=0, policy="error", donated=False):
    return fit_leaves(PLAN, "step", [leaf], [axis], [donated], policy, lambda: ["x"])


def put(mesh, spec):
    return jax.device_put(X, NamedSharding(mesh, spec))


@pytest.mark.parametrize(
    "leaf",
    [3.0, X, jax.numpy.asarray(X), put(MESH, P("i")), put(MESH, P())],
    ids=["scalar", "numpy", "not committed", "as the plan", "replicated on its mesh"],
)
def test_used_as_it_is(leaf):
    assert fit(leaf) == Fit(None, False)


def test_the_order_of_the_devices_counts():
    leaf = put(Mesh(DEVICES[::-1], ("i",)), P("i"))
    placed, moved = fit(leaf)
    assert not moved  # the same set of devices
    assert placed[0].sharding == PLAN.sharding(0)
    np.testing.assert_array_equal(placed[0], X)


def test_a_value_on_one_device_that_all_need_whole_is_copied():
    leaf = jax.device_put(X, DEVICES[0])
    placed, moved = fit(leaf, axis=None)
    assert not moved
    assert placed[0].sharding == PLAN.sharding(None)


def test_an_explicit_mesh_is_replaced_without_a_copy():
    leaf = put(Mesh(DEVICES, ("i",), axis_types=(jax.sharding.AxisType.Explicit,)), P("i"))
    (placed,), moved = fit(leaf)
    assert not moved
    assert placed.sharding == PLAN.sharding(0)
    before, after = (
        [s.data.unsafe_buffer_pointer() for s in x.addressable_shards] for x in (leaf, placed)
    )
    assert before == after


def test_other_devices_are_refused_with_both_shardings():
    leaf = jax.device_put(X, DEVICES[0])
    with pytest.raises(ValueError, match="incompatible devices for argument x, float32") as caught:
        fit(leaf)
    text = str(caught.value)
    assert f"it is committed to {leaf.sharding}" in text
    assert f"this pmap needs it as {PLAN.sharding(0)}" in text
    assert "jax.device_put(x, <the sharding needed>)" in text


@pytest.mark.parametrize("policy", ["warn", "silent"])
def test_other_devices_are_moved_if_the_policy_allows_it(policy):
    leaf = jax.device_put(X, DEVICES[0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        placed, moved = fit(leaf, policy=policy)
    assert moved
    np.testing.assert_array_equal(placed[0], X)
    assert not leaf.is_deleted()
    assert [w.category for w in caught] == ([ReshardWarning] if policy == "warn" else [])


def test_a_donated_array_is_freed_when_it_is_moved():
    leaf = jax.device_put(X, DEVICES[0])
    assert fit(leaf, policy="silent", donated=True).moved
    assert leaf.is_deleted()


def test_a_donated_array_cannot_be_used_twice():
    leaf = jax.device_put(X, DEVICES[0])
    with pytest.raises(ValueError, match="the same array as a and as b, and one of the two"):
        fit_leaves(PLAN, "f", [leaf] * 2, [0, 0], [True, False], "silent", lambda: ["a", "b"])
    assert not leaf.is_deleted()


def test_a_deleted_array_is_left_to_jax():
    leaf = jax.device_put(X, DEVICES[0])
    leaf.delete()
    assert fit(leaf) == Fit(None, False)


def test_with_nested_axes_only_the_same_mesh_is_used_as_it_is():
    inner = (("j", 2),)
    mesh = make_mesh(Layout(tuple(DEVICES), 4), "i", inner)
    plan = make_plan(lambda: abs, "abs", check_options(abs), mesh, inner)
    row = X[:4]
    other = jax.device_put(row, NamedSharding(Mesh(DEVICES.reshape(4, 2), ("a", "b")), P("a")))
    placed, moved = fit_leaves(plan, "f", [other], [0], [False], "error", list)
    assert not moved
    assert placed[0].sharding == plan.sharding(0)
