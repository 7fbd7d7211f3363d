"""A short check on whatever accelerator JAX finds; run as a script, where there is one.

PYTHONPATH=src python tests/accelerator/smoke.py
"""

from __future__ import annotations

import jax
import numpy as np
from jax import lax

import shardlift
from shardlift import demo


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
    ours, _ = demo.train(shardlift.pmap, 10)
    theirs, _ = demo.train(jax.pmap, 10)
    same = jax.tree.map(lambda a, b: np.array_equal(a, b), ours, theirs)
    assert all(jax.tree.leaves(same)), same
    print(f"pmap of body:\n{f.explain(x)}\nall good on {jax.devices()[0].device_kind}")


if __name__ == "__main__":
    main()
