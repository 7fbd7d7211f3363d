"""Steps of training with optimisers that are sensitive to rounding.

Runs on any JAX since 0.7.2: `record.py` records there what pmap makes of them.
"""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

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

enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64  # 0.7.2
MODES = {
    "default": contextlib.nullcontext,
    "x64": lambda: enable_x64(True),
    "debug_nans": lambda: jax.debug_nans(True),
    "matmul precision": lambda: jax.default_matmul_precision("highest"),
}
DTYPES = {"float": ("float32", "float64"), "complex": ("complex64", "complex128")}
CASES = [(step, mode, kind) for step in STEPS for mode in MODES for kind in DTYPES]


def arguments(dtype):
    """Parameters that all devices share, and a batch."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(N, *shape)) for shape in ((6, 3), (8, 6), (8, 3)) * 2]
    w, x, y = ((a + 1j * b if dtype.kind == "c" else a).astype(dtype)
               for a, b in zip(parts[:3], parts[3:], strict=True))  # fmt: skip
    return np.broadcast_to(w[:1], w.shape), x, y


def outputs(transform, step, mode, kind):
    """What ``transform(step)`` returns, by name."""
    args = arguments(np.dtype(DTYPES[kind][mode == "x64"]))
    with MODES[mode](), jax.numpy_dtype_promotion("standard"):
        leaves = jax.tree.leaves(transform(step)(*args))
        return {f"{step.__name__} {mode} {kind} {k}": np.asarray(v) for k, v in enumerate(leaves)}
