import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shardlift
from shardlift import pad_shard_unpad, prefetch_to_device, shard


def test_shard_is_a_view_on_the_host():
    x = np.arange(48).reshape(16, 3)
    out = shard({"x": x})["x"]
    assert out.shape == (8, 2, 3)
    assert np.shares_memory(out, x)


def test_shard_of_device_arrays():
    out = shard(jnp.arange(16))
    np.testing.assert_array_equal(out, np.arange(16).reshape(8, 2))


@pytest.mark.parametrize("leaf", [np.zeros((9, 2)), np.float32(1), 3])
def test_shard_names_what_does_not_split(leaf):
    with pytest.raises(ValueError, match=r"leaf \['y'\] has shape .* 8 local devices"):
        shard({"x": np.zeros((8,)), "y": leaf})


@settings(deadline=None, max_examples=40)
@given(rows=st.integers(1, 40), least=st.none() | st.integers(1, 6))
def test_pad_shard_unpad_keeps_every_row(rows: int, least: int | None):
    shapes = []

    def f(params, x, *, scale, mode):
        assert (params, mode) == ("params", "eval")
        shapes.append(x["a"].shape)
        return {"y": x["a"] * scale[..., None]}

    x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
    scale = np.arange(rows, dtype=np.float32)
    padded = pad_shard_unpad(f, static_argnames=("mode",))
    out = padded("params", {"a": x}, scale=scale, mode="eval", min_device_batch=least)
    np.testing.assert_array_equal(out["y"], x * scale[:, None])
    assert shapes == [(8, max(-(-rows // 8), least or 0), 3)]


def test_pad_shard_unpad_of_a_pmap():
    step = jax.pmap(lambda w, x: x @ w, in_axes=(None, 0))
    x, w = np.ones((11, 3), np.float32), np.ones((3, 2), np.float32)
    out = pad_shard_unpad(step)(w, x)
    assert isinstance(out, np.ndarray)
    np.testing.assert_array_equal(out, x @ w)


def test_static_return_is_left_alone():
    out = pad_shard_unpad(lambda x: x.shape, static_argnums=(), static_return=True)(np.ones(3))
    assert out == (8, 1)


def test_unequal_batches_are_named():
    with pytest.raises(ValueError, match=r"\[0\]\[1\]': 4, .*'x'\]\": 3.*static_argnums"):
        pad_shard_unpad(lambda p, a, x: a)(0, np.ones(4), x=np.ones(3))


def test_prefetch_places_ahead_and_in_order():
    taken = []

    def source():
        for i in range(5):
            taken.append(i)
            yield {"x": np.full((8, 2), i, np.float32)}

    out = prefetch_to_device(source(), 2)
    first = next(out)
    assert taken == [0, 1]
    assert [s.device for s in first["x"].addressable_shards] == jax.local_devices()
    assert [int(np.asarray(b["x"]).max()) for b in out] == [1, 2, 3, 4]


def test_prefetch_on_some_devices():
    devices = jax.devices()[2:4]
    (out,) = prefetch_to_device([np.ones((2, 3))], 1, devices=devices, axis_name="batch")
    assert out.sharding == shardlift.replicate(1.0, devices, axis_name="batch").sharding
    assert out.sharding.mesh.axis_names == ("batch",)


# The calls of flax 0.12.12, so that an import line is all that changes.
FLAX = {
    "replicate": ["tree", "devices", "axis_name"],
    "unreplicate": ["tree"],
    "prefetch_to_device": ["iterator", "size", "devices", "axis_name"],
    "pad_shard_unpad": ["wrapped", "static_argnums", "static_argnames", "static_return"],
    "shard": ["xs"],
}


@pytest.mark.parametrize("name", FLAX)
def test_the_call_is_that_of_flax(name: str):
    ours = inspect.signature(getattr(shardlift, name)).parameters
    assert [*ours] == FLAX[name]
