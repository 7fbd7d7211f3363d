"""Calls that convert arrays to global ones and back, in one process that is taken for several.

Jobs of real processes, and the shortcut without conversions, are in tests/processes.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardlift
from shardlift.mapping import plan, registry
from shardlift.mapping.processes import local_program
from shardlift.mapping.processes.bridge import Bridge

N = 8
X = np.arange(N, dtype=np.float32)
W = np.float32(2)


def body(v, w):
    return v * v * w + lax.psum(v * w, "i")


@pytest.fixture
def mapped(monkeypatch):
    monkeypatch.setattr(plan, "spans_processes", lambda _: True)

    def fresh(v, w):  # a site of its own
        return body(v, w)

    return shardlift.pmap(fresh, "i", in_axes=(0, None))


def alone(v, w):
    return jax.vmap(body, (0, None), axis_name="i")(v, w)


def test_calls(mapped):
    for _ in range(3):
        np.testing.assert_array_equal(mapped(X, W), alone(X, W))
    np.testing.assert_array_equal(mapped(X[:4], W), alone(X[:4], W))
    np.testing.assert_array_equal(mapped(mapped(X, W), W), alone(alone(X, W), W))
    plans = registry.site_behind(mapped)._plans.values()
    assert all(isinstance(made.bridge, Bridge) for made in plans)


def test_arguments_of_every_kind(monkeypatch):
    monkeypatch.setattr(plan, "spans_processes", lambda _: True)
    static = shardlift.pmap(
        lambda k, v, *, b: (v["a"] * k + lax.psum(b, "i"), b),
        "i", static_broadcasted_argnums=0, in_axes=(None, 1), out_axes=(0, None),
    )  # fmt: skip
    for factor in (3, 4, 3):
        row, first = static(factor, {"a": X[None]}, b=X)
        np.testing.assert_array_equal(row, X[:, None] * factor + X.sum())
        assert float(first) == 0
    tangents = shardlift.pmap(lambda t: t)(np.zeros((N, 2), jax.dtypes.float0))
    assert tangents.shape == (N, 2)
    keys = jax.random.split(jax.random.key(0), N)
    bits = shardlift.pmap(lambda k: (k, jax.random.bits(k)))
    np.testing.assert_array_equal(bits(bits(keys)[0])[1], jax.vmap(jax.random.bits)(keys))


class Taken:
    """A shortcut that shows when it is taken."""

    def place(self, leaves):
        return leaves

    def run(self, placed):
        return self


def test_a_shortcut_is_for_calls_of_its_kind(monkeypatch):
    monkeypatch.setattr(plan, "spans_processes", lambda _: True)
    monkeypatch.setattr(local_program, "find_shortcut", lambda *_: Taken())
    scaled = shardlift.pmap(lambda k, v: v * k, static_broadcasted_argnums=0)
    kinds = [(3, X), (4, X), (3, X.astype(np.int32)), (3, X), (4, X)]
    taken = [isinstance(scaled(k, v), Taken) for k, v in kinds]
    assert taken == [False, False, False, True, True]


TRANSFORMS = {
    "vmap": lambda f: jax.vmap(f, (1, None), 1)(jnp.stack([X, X + 1], 1), W),
    "vmap of the other": lambda f: jax.vmap(f, (None, 0))(jnp.asarray(X), jnp.stack([W, W + 1])),
    "grad": lambda f: jax.grad(lambda v, w: f(v, w).sum(), (0, 1))(jnp.asarray(X), W),
    "jvp": lambda f: jax.jvp(lambda v: f(v, W), (jnp.asarray(X),), (jnp.asarray(X),)),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_under_a_transformation(mapped, transform):
    got, wanted = TRANSFORMS[transform](mapped), TRANSFORMS[transform](alone)
    jax.tree.map(np.testing.assert_allclose, got, wanted)


def test_an_output_without_a_device_axis_under_a_transformation(monkeypatch):
    monkeypatch.setattr(plan, "spans_processes", lambda _: True)
    total = shardlift.pmap(lambda v: lax.psum(v, "i"), "i", out_axes=None)
    batch = jnp.stack([X, X + 1], 1)
    np.testing.assert_array_equal(jax.vmap(total, 1)(batch), [28, 36])


def test_a_transformation_that_compiles_is_refused(mapped):
    with pytest.raises(ValueError, match='view="global"'):
        jax.jit(mapped)(X, W)


def test_ahead_of_time(mapped):
    compiled = mapped.lower(X, W).compile()
    np.testing.assert_array_equal(compiled(X, W), alone(X, W))
    assert mapped.eval_shape(X, W).shape == (N,)
    jaxpr = jax.make_jaxpr(mapped)(X, W)
    (out,) = jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, X, W)
    np.testing.assert_array_equal(out, alone(X, W))
