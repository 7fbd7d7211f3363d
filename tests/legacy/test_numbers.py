"""Numbers of pmapped steps under `legacy` against ``jit(vmap)`` of the same function."""

from __future__ import annotations

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardlift

N = 8


def loss(w, x, y):
    return jnp.mean(jnp.abs(jnp.tanh(x @ w) - y) ** 2)


def gradient(w, x, y):
    return lax.pmean(jnp.conj(jax.grad(loss)(w, x, y)), "i")


def sgd(w, x, y):
    return w - 0.1 * gradient(w, x, y)


def adam(w, x, y):
    m, v = jnp.zeros_like(w), jnp.zeros_like(w)
    for t in (1, 2, 3):
        g = gradient(w, x, y)
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * jnp.conj(g)
        w = w - 0.1 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.99**t)) + 1e-8)
    return w, m, v


def natural_gradient(w, x, y):
    fisher = lax.pmean(x.conj().T @ x, "i") / len(x) + 0.1 * jnp.eye(x.shape[1], dtype=x.dtype)
    g = gradient(w, x, y)
    return w - 0.1 * jnp.linalg.solve(fisher, g), jnp.linalg.eigh(fisher)[0]


def clipped(w, x, y):
    g = gradient(w, x, y)
    norm = jnp.sqrt(jnp.sum(jnp.abs(g) ** 2))
    return jnp.where(norm > 0.01, 0.01 * g / norm, g)


def through_collectives(w, x, y):
    return tuple(
        jax.grad(lambda w, reduce=reduce: reduce(loss(reduce(w, "i"), x, y), "i"))(w)
        for reduce in (lax.psum, lax.pmean)
    )


def log_of_a_sum(w, x, y):
    """Of large numbers, shared by all devices."""
    each = jax.nn.logsumexp(30 * jnp.abs(x @ w - y), axis=-1)
    most = lax.pmax(each, "i")
    return most + jnp.log(lax.psum(jnp.exp(each - most), "i"))


STEPS = (sgd, adam, natural_gradient, clipped, through_collectives, log_of_a_sum)
MODES = {
    "default": contextlib.nullcontext,
    "x64": lambda: jax.enable_x64(True),
    "debug_nans": lambda: jax.debug_nans(True),
    "matmul precision": lambda: jax.default_matmul_precision("highest"),
}


def arguments(dtype):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(N, *shape)) for shape in ((6, 3), (8, 6), (8, 3)) * 2]
    w, x, y = ((a + 1j * b if dtype.kind == "c" else a).astype(dtype)
               for a, b in zip(parts[:3], parts[3:], strict=True))  # fmt: skip
    return np.broadcast_to(w[:1], w.shape), x, y


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["float", "complex"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_steps_compute_what_vmap_computes(step, mode, kind):
    wide = mode == "x64"
    name = {"float": ("float32", "float64"), "complex": ("complex64", "complex128")}[kind][wide]
    args = arguments(np.dtype(name))
    with MODES[mode](), shardlift.legacy(), jax.numpy_dtype_promotion("standard"):
        got = jax.pmap(step, axis_name="i")(*args)
        wanted = jax.jit(jax.vmap(step, axis_name="i"))(*args)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        assert one.dtype == other.dtype
        assert np.isfinite(one).all()
        far = 1e-12 if wide else 2e-5
        np.testing.assert_allclose(one, other, rtol=far, atol=far * np.abs(other).max())
        assert np.abs(other).max() > 0


@pytest.mark.exhaustive
def test_debug_nans_notices_a_nan():
    with jax.debug_nans(True), shardlift.legacy(), pytest.raises(FloatingPointError):
        jax.pmap(lambda x: jnp.log(-x))(np.ones(N, np.float32))
