"""pmap under, and around, the other transformations; gradients are pmap's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import shardlift

N = 4


def x():
    return jnp.linspace(-1.0, 2.0, N * 3, dtype=jnp.float32).reshape(N, 3)


def body(v):
    return jnp.sin(v) * lax.pmean(v, "i") + lax.axis_index("i").astype(v.dtype)


TRANSFORMS = {
    "jit": jax.jit,
    "vmap": lambda f: lambda v: jax.vmap(f)(jnp.stack([v, v * 2])),
    "grad": lambda f: jax.grad(lambda v: (f(v) ** 2).sum()),
    "hessian vector": lambda f: (
        lambda v: jax.jvp(jax.grad(lambda w: (f(w) ** 2).sum()), (v,), (v,))
    ),
    "jvp": lambda f: lambda v: jax.jvp(f, (v,), (v,)),
    "scan": lambda f: lambda v: lax.scan(lambda c, _: (f(c), c), v, None, length=3),
    "while": lambda f: lambda v: lax.fori_loop(0, 3, lambda _, c: f(c), v),
    "cond": lambda f: lambda v: lax.cond(v.sum() > 0, f, lambda w: w, v),
    "checkpoint": lambda f: jax.grad(lambda v: jax.checkpoint(f)(v).sum()),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_under(transform):
    wrap = TRANSFORMS[transform]
    f = shardlift.pmap(body, "i")
    wanted = wrap(jax.vmap(body, axis_name="i"))(x())
    for run in (f, f):  # cold, then after a plain call has warmed it
        got = wrap(run)(x())
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6), got, wanted
        )
        np.testing.assert_allclose(f(x()), jax.vmap(body, axis_name="i")(x()), rtol=1e-6)


def test_eager_derivatives_with_values_that_lie_in_another_way():
    """Programs with shardings of their own refuse these once they are transposed."""
    f = shardlift.pmap(lambda v: v * v + lax.psum(v, "i"), "i")
    v = f(np.arange(N, dtype=np.float32))
    whole = jax.device_put(np.ones(N, np.float32), jax.NamedSharding(v.sharding.mesh, jax.P()))
    slope = 2 * np.asarray(v)
    np.testing.assert_array_equal(jax.linearize(f, v)[1](whole), slope + N)
    np.testing.assert_array_equal(jax.jvp(f, (v,), (whole,))[1], slope + N)
    np.testing.assert_array_equal(jax.vjp(f, v)[1](whole)[0], slope + N)
    second = jax.grad(lambda u: jax.grad(lambda w: f(w).sum())(u).sum())
    np.testing.assert_array_equal(second(v), np.full(N, 2))


def test_under_disable_jit():
    f = shardlift.pmap(body, "i")
    warm = f(x())
    with jax.disable_jit():
        np.testing.assert_allclose(f(x()), warm, rtol=1e-6)
        np.testing.assert_allclose(f(v=x()), warm, rtol=1e-6)
        with pytest.raises(ValueError, match="inconsistent sizes"):
            shardlift.pmap(lambda a, b: a + b)(x(), x()[:2])


def test_debug_nans():
    f = shardlift.pmap(jnp.log)
    f(jnp.ones(N))
    with jax.debug_nans(True), pytest.raises(FloatingPointError):
        f(-jnp.ones(N))


SET = {
    "explicit": lambda: jax.make_mesh((8,), ("q",)),
    "auto": lambda: jax.sharding.Mesh(np.array(jax.devices()), ("q",)),
    "two axes": lambda: jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("a", "b")),
}


@pytest.mark.parametrize("kind", SET)
def test_under_set_mesh(kind):
    f = shardlift.pmap(lambda v: v / lax.psum(v, "i"), "i")
    nested = shardlift.pmap(shardlift.pmap(lambda v: lax.psum(v, ("i", "j")), "j"), "i")
    v = np.arange(8, dtype=np.float32)
    plain = np.asarray(f(v))
    with jax.set_mesh(SET[kind]()):
        for _ in range(2):
            for given in (v, jnp.asarray(v), f(v)):
                total = np.asarray(given).sum()
                np.testing.assert_allclose(f(given), np.asarray(given) / total, rtol=1e-6)
            np.testing.assert_array_equal(f(v=v), plain)
            np.testing.assert_array_equal(nested(v.reshape(2, 4)), np.full((2, 4), 28))
    np.testing.assert_array_equal(f(v), plain)


def test_traced_under_set_mesh():
    f = shardlift.pmap(lambda v: v / lax.psum(v, "i"), "i")
    v = np.arange(8, dtype=np.float32)
    with jax.set_mesh(SET["two axes"]()):
        np.testing.assert_array_equal(jax.jit(f)(v), f(v))
    with jax.set_mesh(SET["explicit"]()):
        with pytest.raises(ValueError, match=r"traced .* inside jax.set_mesh.*Explicit axes"):
            jax.jit(f)(v)
    with jax.set_mesh(jax.sharding.Mesh(np.array(jax.devices()[:4]), ("q",))):
        with pytest.raises(ValueError, match="has 4 devices"):
            jax.jit(f)(v)


# The table of what pmap's gradients are, n = 4 and local gradients 1, 2, 3, 4: what the default
# shard_map (check_vma=True) gives instead is n times larger or smaller in most rows.
LOCAL = np.arange(1.0, 5.0, dtype=np.float32)
BODIES = {
    "pmean of grad": (lambda g, loss: lax.pmean(g(loss), "i"), [2.5] * 4),
    "psum of grad": (lambda g, loss: lax.psum(g(loss), "i"), [10.0] * 4),
    "grad of psum": (
        lambda g, loss: g(lambda w, d: lax.psum(loss(w, d), "i")),
        [4.0, 8.0, 12.0, 16.0],
    ),
    "pmean of grad of pmean": (
        lambda g, loss: lax.pmean(g(lambda w, d: lax.pmean(loss(w, d), "i")), "i"),
        [2.5] * 4,
    ),
}


@pytest.mark.parametrize("case", BODIES)
@pytest.mark.parametrize("params", ["stacked", "replicated"])
def test_gradients_inside_are_pmaps(case, params):
    make, wanted = BODIES[case]

    def step(w, d):
        return make(lambda loss: jax.grad(loss)(w, d), lambda w, d: w * d)

    axes = (0 if params == "stacked" else None, 0)
    w = np.ones(N, np.float32) if params == "stacked" else np.float32(1.0)
    for pm in (shardlift.pmap, jax.pmap):
        np.testing.assert_array_equal(pm(step, "i", in_axes=axes)(w, LOCAL), wanted)


def test_constant_closures():
    table = jnp.arange(6.0)
    f = shardlift.pmap(lambda k: table[k])
    np.testing.assert_array_equal(f(jnp.arange(N)), np.arange(N))
    spread = shardlift.pmap(lambda v: v)(np.arange(8, dtype=np.float32))
    np.testing.assert_array_equal(shardlift.pmap(lambda v: v + spread.sum())(LOCAL), LOCAL + 28)
