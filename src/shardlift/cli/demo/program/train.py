"""Data-parallel training of a small classifier. Needs jax>=0.3."""

import argparse
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.config import config

config.update("jax_default_matmul_precision", "float32")

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=100)
parser.add_argument("--batch_size", type=int, default=256)

LEARNING_RATE = 0.003


def spiral(rng, size):
    """Points on the three arms of a spiral, and the arm of each."""
    arm = rng.integers(3, size=size)
    radius = rng.uniform(0.1, 1.0, size=size)
    angle = 4.0 * radius + 2.1 * arm + rng.normal(0.0, 0.1, size=size)
    x = np.stack([radius * np.sin(angle), radius * np.cos(angle)], axis=-1)
    return {"x": x.astype(np.float32), "label": arm.astype(np.int32)}


def init_params(key, sizes):
    keys = random.split(key, len(sizes) - 1)
    return [
        {"w": random.normal(k, (m, n)) * np.sqrt(2 / m), "b": jnp.zeros(n)}
        for k, m, n in zip(keys, sizes[:-1], sizes[1:])
    ]


def predict(params, x, key=None):
    for layer in params[:-1]:
        x = jax.nn.relu(jnp.dot(x, layer["w"]) + layer["b"])
    if key is not None:  # dropout
        x = jnp.where(random.bernoulli(key, 0.9, x.shape), x / 0.9, 0.0)
    return jnp.dot(x, params[-1]["w"]) + params[-1]["b"]


def cross_entropy(logits, label):
    one_hot = jax.nn.one_hot(label, 3)
    return -jnp.mean(jnp.sum(one_hot * jax.nn.log_softmax(logits), axis=-1))


def adam(state, grads, b1=0.9, b2=0.999):
    step = state["step"] + 1
    decay = lambda b, power: lambda m, g: b * m + (1 - b) * g**power
    m = jax.tree_multimap(decay(b1, 1), state["m"], grads)
    v = jax.tree_multimap(decay(b2, 2), state["v"], grads)
    lr = LEARNING_RATE * jnp.sqrt(1 - b2**step) / (1 - b1**step)
    update = lambda p, m, v: p - lr * m / (jnp.sqrt(v) + 1e-8)
    params = jax.tree_multimap(update, state["params"], m, v)
    return {"step": step, "params": params, "m": m, "v": v}


@functools.partial(jax.pmap, axis_name="batch", donate_argnums=(0,))
def train_step(state, batch, key):
    key = random.fold_in(key, state["step"])

    def loss_fn(params):
        logits = predict(params, batch["x"], key)
        return cross_entropy(logits, batch["label"])

    loss, grads = jax.value_and_grad(loss_fn)(state["params"])
    grads = lax.pmean(grads, axis_name="batch")
    return adam(state, grads), {"loss": lax.pmean(loss, axis_name="batch")}


def eval_step(params, batch):
    label = jnp.argmax(predict(params, batch["x"]), axis=-1)
    return lax.psum(jnp.sum(label == batch["label"]), axis_name="batch")


p_eval_step = jax.pmap(eval_step, axis_name="batch")


def replicate(tree):
    return jax.device_put_replicated(tree, jax.local_devices())


def unreplicate(tree):
    return jax.tree_map(lambda x: x[0], tree)


def shard(batch):
    n = jax.local_device_count()
    return jax.tree_map(lambda x: x.reshape((n, -1) + x.shape[1:]), batch)


def main(args):
    rng = np.random.default_rng(0)
    params = init_params(random.PRNGKey(0), [2, 64, 3])
    zeros = jax.tree_map(jnp.zeros_like, params)
    state = {"step": jnp.array(0), "params": params, "m": zeros, "v": zeros}
    state = replicate(state)
    keys = random.split(random.PRNGKey(1), jax.local_device_count())

    warm_up = min(10, args.steps - 1)
    start = time.time()
    for step in range(args.steps):
        batch = shard(spiral(rng, args.batch_size))
        state, metrics = train_step(state, batch, keys)
        metrics = unreplicate(metrics)
        if step == warm_up:
            print(f"warm after {time.time() - start:.2f} s", flush=True)
            start = time.time()
    seconds = (time.time() - start) / max(args.steps - 1 - warm_up, 1)
    loss = float(metrics["loss"])
    print(f"step {args.steps}: loss {loss:.4f}, {1e3 * seconds:.2f} ms per step")

    test = shard(spiral(rng, 4096))
    correct = unreplicate(p_eval_step(state["params"], test))
    print(f"accuracy {correct / 4096:.3f}, on {jax.device_count()} devices")


if __name__ == "__main__":
    main(parser.parse_args())
