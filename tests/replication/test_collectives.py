"""Each collective of jax.lax, over the whole axis and over groups, held against a run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardlift
from tests.replication.checking import HALVES, N, hold_against, proven, reason, rows, same

ROTATION = [(k, (k + 1) % N) for k in range(N)]

WHOLE = {
    "psum": lambda x: lax.psum(x, "i"),
    "pmean": lambda x: lax.pmean(x, "i"),
    "pmax": lambda x: lax.pmax(x, "i"),
    "pmin": lambda x: lax.pmin(x, "i"),
    "all_gather": lambda x: lax.all_gather(x, "i"),
    "psum_of_tree": lambda x: lax.psum({"a": x, "b": x + 1}, "i")["b"],
}
APART = {
    "ppermute": lambda x: lax.ppermute(x, "i", ROTATION),
    "all_to_all": lambda x: lax.all_to_all(x, "i", 0, 0),
    "psum_scatter": lambda x: lax.psum_scatter(x, "i"),
    "axis_index": lambda x: x + lax.axis_index("i").astype(x.dtype),
    "minus_the_mean": lambda x: x - lax.pmean(x, "i"),
    "own_row_of_gathered": lambda x: lax.all_gather(x, "i")[lax.axis_index("i")],
}
# Of a value that is equal on all devices, this is equal too.
KEEPING = ("minus_the_mean",)


@pytest.mark.parametrize("name", WHOLE)
def test_over_the_whole_axis_all_are_equal(name):
    assert proven(WHOLE[name], rows(N, 3))
    assert proven(WHOLE[name], same(N, 3), equal=0)


@pytest.mark.parametrize("name", APART)
def test_what_gives_each_device_its_own_is_not_equal(name):
    assert not proven(APART[name], rows(N, 3))
    assert proven(APART[name], same(N, 3), equal=0) is (name in KEEPING)


GROUPED = {
    "psum": lambda x: lax.psum(x, "i", axis_index_groups=HALVES),
    "pmax": lambda x: lax.pmax(x, "i", axis_index_groups=HALVES),
    "all_gather": lambda x: lax.all_gather(x, "i", axis_index_groups=HALVES),
    "psum_scatter": lambda x: lax.psum_scatter(x, "i", axis_index_groups=HALVES),
}


@pytest.mark.parametrize("name", GROUPED)
def test_over_groups_nothing_is_equal(name):
    assert not proven(GROUPED[name], rows(4, 3))
    assert not proven(GROUPED[name], same(4, 3), equal=0)
    if name != "psum_scatter":
        said = "goes over groups [[0, 1, 2, 3], [4, 5, 6, 7]], not over all devices"
        assert said in str(reason(GROUPED[name], rows(4, 3)))


def test_an_axis_of_one_device():
    def all_apart(x):
        return lax.axis_index("i") + x, lax.ppermute(x, "i", [])

    assert proven(all_apart, jnp.ones((1, 3), jnp.int32)) == (True, True)


# XLA has it for GPU and TPU only (2026-11: 0.10.2, 0.12.0): the claims are not run.


def test_pbroadcast():
    assert proven(lambda x: lax.pbroadcast(x, "i", 3), rows(3), run=False)

    def across(y):
        return lax.pbroadcast(y, "j", 1)

    outer = shardlift.pmap(lambda x: shardlift.pmap(across, "j")(x), "i")
    assert not shardlift.replication(outer, rows(3).reshape(4, 2, 3)).proven


# ---- several axes


def nested(body):
    """A map over ``i`` of 4 with one over ``j`` of 2 in it, and its claims, held against a run."""
    inner = shardlift.pmap(body, "j")
    outer = shardlift.pmap(lambda x: inner(x), "i")
    x = rows(3).reshape(4, 2, 3)
    found = shardlift.replication(outer, x)
    hold_against(found, outer(x))
    return found


@pytest.mark.parametrize(
    ("axes", "claim"), [("i", True), ("j", False), (("i", "j"), True), (("j", "i"), True)]
)
def test_nested_axes(axes, claim):
    assert nested(lambda y: lax.psum(y, axes)).proven is claim
    assert nested(lambda y: jnp.sum(lax.all_gather(y, axes))).proven is claim


def test_one_axis_after_the_other():
    assert nested(lambda y: lax.psum(lax.psum(y, "j"), "i")).proven
    assert nested(lambda y: lax.psum(lax.psum(y, "i"), "j")).proven
    assert not nested(lambda y: lax.psum(y, "i") + lax.psum(y, "j")).proven


def test_the_place_on_an_inner_axis_is_the_same_on_all_of_the_outer():
    assert nested(lambda y: lax.axis_index("j")).proven
    assert not nested(lambda y: lax.axis_index("i")).proven
    assert nested(lambda y: lax.psum(y, "i") * (lax.axis_index("j") + 1).astype(y.dtype)).proven


def test_a_map_under_a_predicate_that_devices_of_an_earlier_map_disagree_on():
    one = shardlift.pmap(lambda y: y.sum(), "j", out_axes=None)
    inner = shardlift.pmap(lambda y: lax.psum(y, "j"), "j")
    outer = shardlift.pmap(lambda w, x: lax.cond(one(x) > 0, inner, lambda c: c, w), "i")
    found = shardlift.replication(outer, jnp.ones((4, 2, 3)), rows(3).reshape(4, 2, 3), equal=0)
    assert "is a map under a predicate that is not equal on its devices" in str(found)


def test_a_mesh_of_two_axes():
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("i", "j"))
    x = rows(3).reshape(4, 2, 3)

    def body(x):
        one = lax.psum(x, "j")
        return one, lax.psum(one, "i"), lax.psum(x, ("i", "j"))

    mapped = jax.jit(
        jax.shard_map(body, mesh=mesh, in_specs=jax.P("i", "j"), out_specs=jax.P("i", "j"))
    )
    found = shardlift.replication(mapped, x)
    assert found.proven == (False, True, True)
    assert found.outputs["[0]"].along == ("j",)
    assert str(found.outputs["[0]"]).endswith(
        "goes over 'j' only, not over 'i', equal along 'j' only"
    )


def test_a_sum_over_an_axis_of_vmap_is_a_plain_function():
    summed = jax.vmap(lambda y: lax.psum(y, "k"), axis_name="k")
    assert proven(summed, same(4, 3), equal=0)
    assert reason(summed, rows(4, 3)).argument == "y"
