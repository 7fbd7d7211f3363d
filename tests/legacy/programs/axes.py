"""in_axes and out_axes in every shape, donation, and devices of one's own choice."""

import functools

import jax
import jax.numpy as jnp
import numpy as np


def mixed(batch, table, scale=1.0):
    return {"product": batch["x"] * table, "sum": batch["y"].sum() * scale}


p_mixed = jax.pmap(mixed, in_axes=({"x": 1, "y": 0}, None), out_axes={"product": 1, "sum": 0})


@functools.partial(jax.pmap, axis_name="d", donate_argnums=0, out_axes=(0, None))
def accumulate(total, x):
    total = total + x
    return total, jax.lax.psum(total, "d")


def main():
    n = jax.local_device_count()
    batch = {
        "x": np.arange(2.0 * n, dtype=np.float32).reshape(2, n),
        "y": np.arange(3.0 * n, dtype=np.float32).reshape(n, 3),
    }
    out = p_mixed(batch, np.array([2.0, 3.0], np.float32), scale=np.arange(n, dtype=np.float32))
    total = jax.device_put_replicated(jnp.zeros(2), jax.local_devices())
    for k in range(4):
        total, everyone = accumulate(total, np.full((n, 2), k, np.float32))
    backwards = jax.pmap(lambda x: x + jax.lax.axis_index("i"), "i", devices=jax.devices()[::-1])
    turned = backwards(total)  # lies on the same devices in another order
    few = jax.pmap(lambda x: x * 2, devices=jax.devices()[2:4])(np.ones((2, 2), np.float32))
    return {
        **out,
        "total": total,
        "everyone": everyone,
        "turned": turned,
        "rows": turned[0] + total[3] + few[1],
        "column": out["product"][:, 1],
    }


if __name__ == "__main__":
    RESULTS = main()
