"""Keywords that functions lost: gone here, and taken inside."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import shardlift

X = jnp.arange(6.0)


def test_inside():
    with shardlift.legacy() as uses:
        np.testing.assert_array_equal(jnp.clip(X, a_min=1.0, a_max=3.0), np.clip(X, 1, 3))
        np.testing.assert_array_equal(jnp.clip(a=X, a_min=4.0), np.maximum(X, 4))
        np.testing.assert_array_equal(jnp.clip(X, 1.0, 3.0), np.clip(X, 1, 3))
        assert jnp.reshape(X, newshape=(2, 3)).shape == (2, 3)
        assert jnp.quantile(X, 0.5, interpolation="lower") == 2
        assert jnp.percentile(X, 50, interpolation="higher") == 3
        clipped = jax.jit(lambda x: jnp.clip(x, a_max=2.0))(X)
    np.testing.assert_array_equal(clipped, np.minimum(X, 2))
    assert uses["jax.numpy.clip(a_min=)"] == 2
    assert uses["jax.numpy.reshape(newshape=)"] == 1


def test_outside():
    with pytest.raises(TypeError):
        jnp.clip(X, a_min=1.0)


def test_a_keyword_that_never_was():
    with shardlift.legacy(), pytest.raises(TypeError, match="lower"):
        jnp.clip(X, lower=1.0)
