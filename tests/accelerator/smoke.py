"""A short check on whatever accelerator JAX finds; run as a script, where there is one.

PYTHONPATH=src python tests/accelerator/smoke.py
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import shardlift
from shardlift.facts import Recorder


def train(pmap, steps=10):
    """Some steps of a small model; the state after them."""
    n = jax.device_count()

    def step(state, x):
        loss = lambda s: jnp.mean((jnp.tanh(x @ s["w"]) @ s["v"]) ** 2)
        gradient = lax.pmean(jax.grad(loss)(state), "batch")
        return jax.tree.map(lambda p, g: p - 0.1 * g, state, gradient)

    stepped = pmap(step, axis_name="batch", donate_argnums=(0,))
    rng = np.random.default_rng(0)
    one = {"w": rng.normal(size=(8, 16)), "v": rng.normal(size=(16, 1))}
    state = {k: np.stack([v.astype(np.float32)] * n) for k, v in one.items()}
    for _ in range(steps):
        state = stepped(state, rng.normal(size=(n, 4, 8)).astype(np.float32))
    return state


def main() -> None:
    """Compare with jax.pmap and vmap on the default platform."""
    n = jax.device_count()
    print(jax.__version__, jax.devices())
    x = np.arange(n * 6, dtype=np.float32).reshape(n, 6)

    def body(v):
        return v / lax.psum(v.sum(), "i"), jax.grad(lambda u: lax.pmean((u * u).sum(), "i"))(v)

    f = shardlift.pmap(body, "i")
    for _ in range(2):
        for ours, theirs in zip(f(x), jax.pmap(body, "i")(x), strict=True):
            assert np.array_equal(ours, theirs)
            assert ours.sharding.device_set == set(jax.devices())
    state = f(x)[0]
    step = shardlift.pmap(lambda s: s + 1, donate_argnums=0)
    out = step(state)
    assert state.is_deleted()
    assert out.shape == x.shape
    nested = shardlift.pmap(shardlift.pmap(lambda v: lax.psum(v, ("i", "j")), "j"), "i")
    assert np.array_equal(nested(np.ones((n, 1), np.float32)), np.full((n, 1), n))
    moved = shardlift.pmap(lambda v: v * 2, reshard="silent")
    on_cpu = jax.device_put(x, jax.devices("cpu")[0])
    assert np.array_equal(moved(on_cpu), x * 2)
    assert np.array_equal(shardlift.unreplicate(shardlift.replicate({"w": x}))["w"], x)
    ours, theirs = train(shardlift.pmap), train(jax.pmap)
    same = jax.tree.map(lambda a, b: np.array_equal(a, b), ours, theirs)
    assert all(jax.tree.leaves(same)), same
    recorder = Recorder()
    with shardlift.legacy(recorder=recorder):
        train(jax.pmap)
    (site,) = recorder.capture().sites
    assert (site.calls, site.compile_count) == (10, 1), site
    print(f"pmap of body:\n{f.explain(x)}\nall good on {jax.devices()[0].device_kind}")


if __name__ == "__main__":
    main()
