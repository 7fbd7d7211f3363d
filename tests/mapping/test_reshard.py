"""Inputs that lie elsewhere: refused with a clear message, or moved."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shardlift
from shardlift.mapping import ReshardWarning
from tests.mapping.test_pmap import rows

N = 8


def mesh(devices, name="other"):
    return Mesh(np.array(devices), (name,))


def grid():
    return Mesh(np.array(jax.devices()).reshape(4, 2), ("a", "b"))


def put(sharding):
    return lambda x: jax.device_put(x, sharding())


ELSEWHERE = {
    "one device": put(lambda: jax.devices()[0]),
    "another device": put(lambda: jax.devices()[5]),
    "half the devices": put(lambda: NamedSharding(mesh(jax.devices()[:4]), P("other"))),
}
SAME_DEVICES = {
    "another order": put(lambda: NamedSharding(mesh(jax.devices()[::-1]), P("other"))),
    "another axis": put(lambda: NamedSharding(mesh(jax.devices()), P(None, "other"))),
    "two axes": put(lambda: NamedSharding(grid(), P("a", "b"))),
    "another axis name": put(lambda: NamedSharding(mesh(jax.devices()), P("other"))),
    "explicit mesh": put(lambda: NamedSharding(jax.make_mesh((N,), ("other",)), P("other"))),
    "whole on every device": put(lambda: NamedSharding(mesh(jax.devices()), P())),
    "not committed": jnp.asarray,
    "numpy": np.asarray,
}


def step(x, w):
    return {"y": x * 2 + w["scale"]}


@pytest.mark.parametrize("place", ELSEWHERE)
def test_refused_by_default(place):
    f = shardlift.pmap(step, in_axes=(0, None))
    f(rows(N, N), {"scale": 1.0})
    with pytest.raises(ValueError, match="received incompatible devices for argument x") as caught:
        f(ELSEWHERE[place](rows(N, N)), {"scale": 1.0})
    text = str(caught.value)
    assert f"it is committed to {ELSEWHERE[place](rows(N, N)).sharding}" in text
    assert "this pmap needs it as NamedSharding(mesh=Mesh('_pmap': 8" in text
    assert 'reshard="warn"' in text
    np.testing.assert_array_equal(f(rows(N, N), {"scale": 1.0})["y"], rows(N, N) * 2 + 1)


def test_the_argument_is_named_by_its_path():
    scales = {"scale": jax.device_put(rows(N), jax.devices()[1])}
    with pytest.raises(ValueError, match=r"argument w\['scale'\], float32\[8\]"):
        shardlift.pmap(step)(rows(N), scales)


def test_an_unmapped_argument_is_copied_to_every_device_as_jit_does():
    scale = {"scale": jax.device_put(np.float32(1.0), jax.devices()[1])}
    for policy in ("error", "silent"):
        f = shardlift.pmap(step, in_axes=(0, None), reshard=policy)
        np.testing.assert_array_equal(f(rows(N), scale)["y"], rows(N) * 2 + 1)
    nested = shardlift.pmap(
        shardlift.pmap(lambda x, w: x + w, in_axes=(0, None)), in_axes=(0, None)
    )
    np.testing.assert_array_equal(nested(rows(2, 4), scale["scale"]), rows(2, 4) + 1)


@pytest.mark.parametrize("place", ELSEWHERE)
@pytest.mark.parametrize("by_keyword", [False, True])
def test_silent_moves(place, by_keyword):
    f = shardlift.pmap(lambda x: x * 2, reshard="silent")
    for _ in range(3):
        x = ELSEWHERE[place](rows(N, N))
        y = f(x=x) if by_keyword else f(x)
        np.testing.assert_array_equal(y, rows(N, N) * 2)
        assert not x.is_deleted()


def test_warn_says_it_once_a_site_with_the_bytes():
    f = shardlift.pmap(lambda x: x * 2, reshard="warn")
    x = ELSEWHERE["one device"](rows(N, N))
    with pytest.warns(ReshardWarning, match="moves 256 bytes .* x has Single"):
        f(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(f(x), rows(N, N) * 2)


def test_a_free_cut_does_not_use_up_the_warning():
    f = shardlift.pmap(lambda x: x * 2, reshard="warn")
    f(jax.device_put(rows(N), NamedSharding(jax.make_mesh((N,), ("other",)), P())))
    with pytest.warns(ReshardWarning) as caught:
        f(ELSEWHERE["one device"](rows(N)))
    assert caught[0].filename == __file__


@pytest.mark.parametrize("place", SAME_DEVICES)
@pytest.mark.parametrize("warm", [False, True])
def test_what_lies_on_the_same_devices_is_taken_as_it_is(place, warm):
    f = shardlift.pmap(lambda x: x * 2)
    if warm:
        f(rows(N, N))
    for _ in range(2):
        y = f(SAME_DEVICES[place](rows(N, N)))
        np.testing.assert_array_equal(y, rows(N, N) * 2)
        assert y.sharding.is_equivalent_to(f(rows(N, N)).sharding, 2)


def test_fewer_devices_than_the_input_has():
    half = shardlift.pmap(lambda x: x + 1, devices=jax.devices()[4:], reshard="silent")
    whole = shardlift.pmap(lambda x: x)(rows(N))
    np.testing.assert_array_equal(half(whole[:4]), rows(4) + 1)


def test_typed_keys_move_too():
    keys = jax.device_put(jax.random.split(jax.random.key(0), N), jax.devices()[3])
    f = shardlift.pmap(jax.random.normal, reshard="silent")
    np.testing.assert_array_equal(f(keys), jax.vmap(jax.random.normal)(keys))
    with pytest.warns(ReshardWarning, match="moves 64 bytes"):
        shardlift.pmap(jax.random.bits, reshard="warn")(keys)


def test_nested_inputs_on_the_same_devices_are_taken_as_they_lie():
    f = shardlift.pmap(shardlift.pmap(lambda x: x * 2, "j"), "i")
    flat = shardlift.pmap(lambda x: x)(rows(N, 2))
    np.testing.assert_array_equal(f(flat.reshape(2, 4, 2)), rows(2, 4, 2) * 2)
    with pytest.raises(ValueError, match="incompatible devices"):
        f(jax.device_put(rows(2, 4), jax.devices()[0]))
