"""`shardlift.testing`: a migrated function and its pmap original."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardlift
from shardlift.testing import assert_same_as_pmap

N = jax.device_count()
X = np.arange(N * 6, dtype=np.float32).reshape(N, 3, 2)
MESH = jax.sharding.Mesh(np.array(jax.devices()), ("i",))
ROWS, WHOLE = jax.P("i"), jax.P()


def _step(x):
    return {"mean": jax.lax.pmean(x, "i"), "row": x * 2}


def _on_global_arrays(factor=1.0):
    """Takes (n * b, ...), and returns the mean once."""

    def body(x):
        return {"mean": jax.lax.pmean(x, "i") * factor, "row": x * 2}

    out_specs = {"mean": WHOLE, "row": ROWS}
    return jax.jit(
        jax.shard_map(body, mesh=MESH, in_specs=ROWS, out_specs=out_specs, check_vma=False)
    )


@jax.jit
@partial(jax.shard_map, mesh=MESH, in_specs=ROWS, out_specs=ROWS, check_vma=False)
def stacked(x):
    return jax.tree.map(lambda y: y[None], _step(x[0]))


OLD = shardlift.pmap(_step, axis_name="i")


def test_the_same_layout():
    assert_same_as_pmap(stacked, OLD, X)
    assert_same_as_pmap(stacked, jax.pmap(_step, axis_name="i"), X)


def test_another_layout():
    assert_same_as_pmap(_on_global_arrays(), OLD, X, new_args=[X.reshape(-1, 2)])


def test_a_wrong_factor_is_named_with_its_cause():
    with pytest.raises(AssertionError) as failed:
        assert_same_as_pmap(_on_global_arrays(N), OLD, X, new_args=[X.reshape(-1, 2)])
    text = str(failed.value)
    assert text.startswith("body differs from pmap in 1 of 2 outputs:\n  ['mean']: ")
    assert f"likely: {N}.000 times too large" in text


def test_donated_arguments_stay_usable():
    x = shardlift.replicate(jnp.ones(3))
    donating = shardlift.pmap(lambda x: x + 1, donate_argnums=0)
    assert_same_as_pmap(donating, donating, x)
    assert not x.is_deleted()


def test_keywords_are_passed_on():
    def scaled(x, scale):
        return x * scale

    old = shardlift.pmap(scaled)
    assert_same_as_pmap(jax.jit(scaled), old, X, scale=np.full((N, 1, 1), 2, np.float32))


def test_a_tolerance():
    def off(x):
        return jax.tree.map(lambda y: jnp.nextafter(y, jnp.inf), OLD(x))

    with pytest.raises(AssertionError, match="up to 1 ulps"):
        assert_same_as_pmap(off, OLD, X + 1)
    assert_same_as_pmap(off, OLD, X + 1, ulps=1)
    assert_same_as_pmap(off, OLD, X + 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (lambda x: {"mean": OLD(x)["mean"]}, "['row']: only pmap returns it"),
        (lambda x: {**OLD(x), "more": x}, "['more']: pmap does not return it"),
        (lambda x: {**OLD(x), "row": x[:, :2]}, "['row']: shape"),
        (lambda x: {**OLD(x), "row": np.int32(x * 2)}, "float32 before, int32 after"),
    ],
)
def test_other_outputs_are_named(new, message):
    with pytest.raises(AssertionError) as failed:
        assert_same_as_pmap(new, OLD, X)
    assert message in str(failed.value)


def test_an_output_that_cannot_be_read_is_not_a_success():
    gone = jnp.ones(3)
    gone.delete()
    with pytest.raises(AssertionError, match="cannot be read, so it was not compared"):
        assert_same_as_pmap(lambda x: gone, lambda x: gone, X)


def test_nothing_to_compare_is_not_a_success():
    with pytest.raises(AssertionError, match="nothing to compare"):
        assert_same_as_pmap(lambda x: None, lambda x: None, X)
