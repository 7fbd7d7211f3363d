"""Data-parallel training of a small network: momentum SGD, gradients averaged over devices."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

BATCH, FEATURES, HIDDEN, CLASSES = 4, 6, 16, 3


def init(key):
    k1, k2 = random.split(key)
    return {
        "dense1": {"w": random.normal(k1, (FEATURES, HIDDEN)) * 0.3, "b": jnp.zeros(HIDDEN)},
        "dense2": {"w": random.normal(k2, (HIDDEN, CLASSES)) * 0.3, "b": jnp.zeros(CLASSES)},
    }


def loss_fn(params, batch):
    x, labels = batch
    hidden = jnp.tanh(x @ params["dense1"]["w"] + params["dense1"]["b"])
    logits = hidden @ params["dense2"]["w"] + params["dense2"]["b"]
    logits = logits - logits.max(-1, keepdims=True)
    picked = jnp.take_along_axis(logits, labels[:, None], axis=1)[:, 0]
    return (jnp.log(jnp.exp(logits).sum(-1)) - picked).mean()


@functools.partial(jax.pmap, axis_name="batch", donate_argnums=(0, 1))
def train_step(params, velocity, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    grads = lax.pmean(grads, "batch")
    velocity = jax.tree_util.tree_map(lambda v, g: 0.9 * v + g, velocity, grads)
    params = jax.tree_util.tree_map(lambda p, v: p - 0.1 * v, params, velocity)
    return params, velocity, lax.pmean(loss, "batch")


def batches(steps, devices):
    rng = np.random.RandomState(0)
    for _ in range(steps):
        x = rng.randn(devices, BATCH, FEATURES).astype(np.float32)
        yield x, (x[..., 0] > 0).astype(np.int32) + (x[..., 1] > 0.5)


def main():
    devices = jax.local_devices()
    params = init(random.PRNGKey(0))
    velocity = jax.tree_util.tree_map(jnp.zeros_like, params)
    params = jax.device_put_replicated(params, devices)
    velocity = jax.device_put_replicated(velocity, devices)
    losses = []
    for batch in batches(10, len(devices)):
        params, velocity, loss = train_step(params, velocity, batch)
        losses.append(float(loss[0]))
    final = jax.tree_util.tree_map(lambda x: x[0], params)
    return {"losses": np.float32(losses), "w1": final["dense1"]["w"], "w2": final["dense2"]["w"]}


if __name__ == "__main__":
    RESULTS = main()
    print("last loss", RESULTS["losses"][-1])
