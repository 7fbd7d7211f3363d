"""Data-parallel training, as it was written for pmap, on whatever devices there are.

    JAX_PLATFORMS=cpu JAX_NUM_CPU_DEVICES=8 python examples/data_parallel.py

Every device holds a copy of the state and takes its shard of each batch; gradients are averaged
over the devices. Only the names differ from a program of 2022: `shardlift.pmap` for `jax.pmap`,
`shardlift.replicate` and `unreplicate` for those of flax.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import shardlift


def loss_of(params, x, y):
    return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)


@functools.partial(shardlift.pmap, axis_name="batch", donate_argnums=0)
def train_step(params, x, y):
    loss, grads = jax.value_and_grad(loss_of)(params, x, y)
    grads = lax.pmean(grads, axis_name="batch")
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params, lax.pmean(loss, axis_name="batch")


def main(steps: int = 100) -> tuple[dict, list[float]]:
    rng = np.random.default_rng(0)
    true_w = rng.normal(size=(4, 1)).astype(np.float32)
    params = shardlift.replicate({"w": jnp.zeros((4, 1)), "b": jnp.zeros(1)})
    losses = []
    for _ in range(steps):
        x = rng.normal(size=(jax.device_count() * 8, 4)).astype(np.float32)
        y = x @ true_w + 1
        params, loss = train_step(params, shardlift.shard(x), shardlift.shard(y))
        losses.append(float(shardlift.unreplicate(loss)))
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.6f} on {jax.device_count()} devices")
    return shardlift.unreplicate(params, check=True), losses


if __name__ == "__main__":
    main()
