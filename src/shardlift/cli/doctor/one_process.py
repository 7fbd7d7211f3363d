"""The check of `doctor` in one process: pmap on several devices, compared with vmap on one."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
from jax import lax

import shardlift


def step(weights: Any, x: Any) -> Any:
    """An averaged gradient, which a wrong transpose of a collective would change."""
    gradient = jax.grad(lambda w: ((w * x) ** 2).sum())(weights)
    return weights - 0.5 * lax.pmean(gradient, "i"), lax.psum(x, "i")


def check_against_vmap() -> None:
    """Compare pmap with vmap on small integers, for which the order of a sum does not matter."""
    n = jax.device_count()
    weights = np.ones((n, 3), np.float32)
    x = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
    mapped = shardlift.pmap(step, axis_name="i")(weights, x)
    expected = jax.vmap(step, axis_name="i")(weights, x)
    for a, b in zip(mapped, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def check_nesting() -> None:
    """Nest two pmaps over all devices."""
    n = jax.device_count()
    inner = functools.partial(shardlift.pmap, axis_name="j")(lambda x: lax.psum(x, ("i", "j")))
    total = shardlift.pmap(inner, axis_name="i")(np.ones((2, n // 2), np.float32))
    np.testing.assert_array_equal(np.asarray(total), np.full((2, n // 2), n))


def check_placement() -> None:
    """Copy a tree to all devices and back."""
    tree = {"w": np.arange(5.0, dtype=np.float32)}
    copies = shardlift.replicate(tree)
    np.testing.assert_array_equal(
        np.asarray(shardlift.unreplicate(copies, check=True)["w"]), tree["w"]
    )


def check_restored_names() -> None:
    """Use a removed name inside `shardlift.legacy`."""
    old: Any = jax
    before = hasattr(jax, "device_put_replicated")
    with shardlift.legacy():
        rows = old.device_put_replicated(np.ones(2, np.float32), jax.local_devices())
        assert rows[0].shape == (2,)
    assert hasattr(jax, "device_put_replicated") == before


if __name__ == "__main__":
    for check in (check_against_vmap, check_nesting, check_placement, check_restored_names):
        check()
    print(f"pmap, nested pmap, placement and removed names work on {jax.device_count()} devices")
