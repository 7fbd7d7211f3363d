"""The same training on global arrays: reads checkpoints with a device axis, and can write them.

What is the same on every device loses its axis: one row is read, after a look at the others. What
each device has of its own, here the keys, keeps it, sharded. `--stacked` writes the old layout.
"""

import os
import sys
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

STEPS, SHARDS = 20, 8


def init_state(key):
    params = {"w": 0.1 * jax.random.normal(key, (4, 1)), "b": jnp.zeros(1)}
    return {"params": params, "momentum": jax.tree.map(jnp.zeros_like, params)}


@jax.jit(donate_argnames="state")
def train_step(state, keys, x, y):
    def loss_fn(params):
        noise = jax.vmap(lambda key: jax.random.normal(key, x.shape[1:]))(keys)
        noisy = x + 0.01 * noise
        return jnp.mean((noisy @ params["w"] + params["b"] - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(state["params"])
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, state["momentum"], grads)
    params = jax.tree.map(lambda p, m: p - 0.02 * m, state["params"], momentum)
    keys = jax.vmap(lambda key: jax.random.split(key, 1)[0])(keys)
    return {"params": params, "momentum": momentum}, keys, loss


def unstacked(tree):
    """One row of every array, if all of its rows are equal."""

    def one_row(path, rows):
        if not np.array_equal(rows, np.broadcast_to(rows[:1], rows.shape), equal_nan=True):
            name = jax.tree_util.keystr(path)
            raise ValueError(f"{name} differs between devices: keep its axis, or average it")
        return rows[0]

    return jax.tree_util.tree_map_with_path(one_row, tree)


def stacked(tree):
    """Every array once for each device, as pmap had it."""
    return jax.tree.map(lambda x: np.stack([x] * SHARDS), tree)


def save(path, tree):
    leaves = jax.tree.leaves(jax.device_get(tree))
    np.savez(path, **{f"leaf_{i}": leaf for i, leaf in enumerate(leaves)})


def load(path, like):
    with np.load(path) as saved:
        leaves = [saved[f"leaf_{i}"] for i in range(len(saved.files))]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def batch(step):
    rng = np.random.default_rng(step)
    x = rng.normal(size=(SHARDS, 8, 4)).astype(np.float32)
    return x, x.sum(-1, keepdims=True) + 1


def train(state, keys, first, sharding):
    for step in range(first, first + STEPS):
        state, keys, loss = train_step(state, keys, *jax.device_put(batch(step), sharding))
    print(f"step {step:2d}  loss {float(loss):.6f}")
    return state, keys


def main(folder, write_stacked):
    path = os.path.join(folder, "checkpoint.npz")
    mesh = jax.make_mesh((jax.device_count(),), ("batch",), axis_types=(AxisType.Auto,))
    over_batch, replicated = NamedSharding(mesh, P("batch")), NamedSharding(mesh, P())
    state = init_state(jax.random.PRNGKey(0))
    keys = jax.random.split(jax.random.PRNGKey(1), SHARDS)
    first = STEPS if os.path.exists(path) else 0
    if first:
        print("resumed")
        state, keys = load(path, (state, keys))
        is_old = state["params"]["b"].ndim > 1
        state = unstacked(state) if is_old else state
    state, keys = jax.device_put(state, replicated), jax.device_put(keys, over_batch)
    state, keys = train(state, keys, first, over_batch)
    if not first:
        host = jax.device_get(state)
        save(path, (stacked(host) if write_stacked else host, keys))
        state, keys = train(state, keys, STEPS, over_batch)
    print(f"w {np.asarray(state['params']['w']).sum():.5f}")


if __name__ == "__main__":
    folders = [word for word in sys.argv[1:] if word != "--stacked"]
    with tempfile.TemporaryDirectory() as scratch:
        main(*(folders or [scratch]), write_stacked="--stacked" in sys.argv)
