"""Donated inputs: reused, gone afterwards, and saying so."""

import jax
import numpy as np
import pytest

import shardlift
from tests.arrays.test_global_arrays import pointers

N = 8


def placed(*shape):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return jax.block_until_ready(shardlift.pmap(lambda x: x + 0)(x))


def test_the_buffers_are_reused():
    step = shardlift.pmap(lambda s, b: (s + b, b * 2), donate_argnums=0)
    for _ in range(3):
        state, batch = placed(N, 4), placed(N, 4)
        before = pointers(state)
        new, _ = step(state, batch)
        assert pointers(new) == before
        assert state.is_deleted()
        assert not batch.is_deleted()


@pytest.mark.parametrize("warm", [False, True])
def test_a_donated_input_says_that_it_is_gone(warm):
    step = shardlift.pmap(lambda s: s + 1, donate_argnums=0)
    if warm:
        step(placed(N))
    state = placed(N)
    step(state)
    for use in (np.asarray, step):
        with pytest.raises(RuntimeError, match="Array has been deleted"):
            use(state)
    np.testing.assert_array_equal(step(placed(N)), np.arange(N) + 1)


def test_neither_static_nor_keyword_arguments_shift_donation():
    static = shardlift.pmap(lambda n, s, b: s + b, static_broadcasted_argnums=0, donate_argnums=1)
    keyword = shardlift.pmap(lambda s, b: s + b, donate_argnums=(0, 1))
    for call in (lambda s, b: static("a", s, b), lambda s, b: keyword(s, b=b)):
        state, batch = placed(N), placed(N)
        call(state, batch)
        assert state.is_deleted()
        assert not batch.is_deleted()


def test_a_donated_input_that_is_moved_is_freed():
    step = shardlift.pmap(lambda s: s + 1, donate_argnums=0, reshard="silent")
    for _ in range(2):
        state = jax.device_put(np.arange(N, dtype=np.float32), jax.devices()[2])
        np.testing.assert_array_equal(step(state), np.arange(N) + 1)
        assert state.is_deleted()


def test_every_way_of_calling_says_that_a_donated_input_is_gone():
    by_keyword = shardlift.pmap(lambda s, b: s + b, donate_argnums=0)
    nested = shardlift.pmap(shardlift.pmap(lambda s: s + 1), donate_argnums=0)
    state = placed(N)
    by_keyword(state, b=placed(N))
    with pytest.raises(RuntimeError, match="deleted"):
        by_keyword(state, b=placed(N))
    state = nested(np.ones((2, 4), np.float32))
    nested(state)
    with pytest.raises(RuntimeError, match="deleted"):
        nested(state)
