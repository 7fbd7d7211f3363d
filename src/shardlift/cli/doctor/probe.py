"""The program that `doctor` runs: an averaged gradient and a sum over all devices."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax import lax

import shardlift


def step(weight: Any, x: Any) -> Any:
    """An update by the averaged gradient, which a wrong transpose of a collective would change."""
    gradient = jax.grad(lambda w: lax.psum(w * x, "i") / lax.axis_size("i"))(weight)
    return weight - lax.pmean(gradient, "i"), lax.psum(x, "i")


if __name__ == "__main__":
    n, here = jax.device_count(), jax.local_device_count()
    x = jax.process_index() * here + np.arange(here, dtype=np.float32)  # 0 to n - 1 in all
    weight, total = shardlift.pmap(step, axis_name="i")(np.ones(here, np.float32), x)
    np.testing.assert_array_equal(np.asarray(total), n * (n - 1) / 2)
    np.testing.assert_array_equal(np.asarray(weight), 1 - (n - 1) / 2)
    device, many = jax.devices()[0], "es" * (jax.process_count() > 1)
    devices = f"{n} {device.platform} ({device.device_kind})"
    print(f"pmap works on {devices}, {jax.process_count()} process{many}", flush=True)
