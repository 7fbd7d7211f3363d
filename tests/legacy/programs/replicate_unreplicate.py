"""A train state replicated, stepped and read in the way of flax examples, helpers included."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def replicate(tree, devices=None):
    return jax.device_put_replicated(tree, devices or jax.local_devices())


def unreplicate(tree):
    return jax.tree_util.tree_map(lambda x: x[0], tree)


def shard(xs):
    count = jax.local_device_count()
    return jax.tree_util.tree_map(lambda x: x.reshape((count, -1, *x.shape[1:])), xs)


def get_metrics(device_metrics):
    metrics = jax.device_get(jax.tree_util.tree_map(lambda x: x[0], device_metrics))
    return {key: np.stack([m[key] for m in metrics]) for key in metrics[0]}


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass
class TrainState:
    step: Any
    params: Any
    batch_stats: Any

    def tree_flatten(self):
        return (self.step, self.params, self.batch_stats), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)

    def apply_gradients(self, grads, lr, batch_stats):
        params = jax.tree_util.tree_map(lambda p, g: p - lr * g, self.params, grads)
        return TrainState(self.step + 1, params, batch_stats)


def train_step(state, batch):
    def loss_fn(params):
        x = (batch["x"] - batch["x"].mean(0)) * params["scale"]
        error = x @ params["w"] - batch["y"]
        return (error**2).mean(), batch["x"].mean(0)

    (loss, mean), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    grads = jax.lax.pmean(grads, axis_name="batch")
    stats = 0.9 * state.batch_stats + 0.1 * mean
    state = state.apply_gradients(grads, 0.05, stats)
    return state, jax.lax.pmean({"loss": loss, "lr": 0.05}, "batch")


p_train_step = jax.pmap(train_step, axis_name="batch")
cross_replica_mean = jax.pmap(lambda x: jax.lax.pmean(x, "x"), "x")


def main():
    rng = np.random.default_rng(1)
    params = {"w": jnp.ones((5, 2)) * 0.1, "scale": jnp.ones(5)}
    state = replicate(TrainState(jnp.int32(0), params, jnp.zeros(5)))
    metrics = []
    for _ in range(6):
        x = rng.normal(size=(16, 5)).astype(np.float32)
        state, m = p_train_step(state, shard({"x": x, "y": x[:, :2] * 2}))
        metrics.append(m)
    # Statistics of the devices have drifted apart: bring them together, as before a checkpoint.
    state = dataclasses.replace(state, batch_stats=cross_replica_mean(state.batch_stats))
    host = unreplicate(state)
    # What was read is used together with what is still on all devices.
    ahead = jax.tree_util.tree_map(lambda a, b: a + b, host.params, unreplicate(state).params)
    return {**get_metrics(metrics), "step": host.step, "stats": host.batch_stats, **ahead}


if __name__ == "__main__":
    RESULTS = main()
