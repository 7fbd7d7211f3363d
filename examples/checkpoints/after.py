"""Training that is saved and resumed, with the device axis in the file."""

import functools
import os
import sys
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

STEPS = 20


def device_put_sharded(shards, devices):
    """Put `shards[i]` on `devices[i]`, as the rows of one array per leaf."""
    mesh = jax.sharding.Mesh(devices, ("batch",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))

    def put(*xs):
        blocks = [x[None] for x in jax.device_put(xs, tuple(devices))]
        shape = (len(devices), *blocks[0].shape[1:])
        return jax.make_array_from_single_device_arrays(shape, rows, blocks)

    return jax.tree.map(put, *shards)


def device_put_replicated(x, devices):
    """Put `x` on every device, as the rows of one array per leaf."""
    mesh = jax.sharding.Mesh(devices, ("batch",))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
    stack = jax.jit(jnp.broadcast_to, static_argnums=1, out_shardings=rows)
    x = jax.device_put(x, whole)
    return jax.tree.map(lambda y: stack(y, (mesh.size, *y.shape)), x)


def per_row(f):
    """Let `f` see the one row of a block, and return a block of one row."""

    @functools.wraps(f)
    def on_block(*block):
        row = jax.tree.map(lambda x: jnp.squeeze(x, 0), block)
        return jax.tree.map(lambda x: jnp.expand_dims(x, 0), f(*row))

    return on_block


def init_state(key):
    params = {"w": 0.1 * jax.random.normal(key, (4, 1)), "b": jnp.zeros(1)}
    return {"params": params, "momentum": jax.tree.map(jnp.zeros_like, params)}


mesh = jax.sharding.Mesh(jax.devices(), ("batch",))
spec = jax.P("batch")


@functools.partial(jax.jit, donate_argnums=(0,))
@jax.shard_map(mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
@per_row
def train_step(state, key, x, y):
    def loss_fn(params):
        noisy = x + 0.01 * jax.random.normal(key, x.shape)
        return jnp.mean((noisy @ params["w"] + params["b"] - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(state["params"])
    grads = lax.pmean(grads, "batch")
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, state["momentum"], grads)
    params = jax.tree.map(lambda p, m: p - 0.02 * m, state["params"], momentum)
    key = jax.random.split(key, 1)[0]
    return {"params": params, "momentum": momentum}, key, lax.pmean(loss, "batch")


def save(path, state, keys):
    """As it is: every array with a row for each device."""
    leaves = jax.tree_util.tree_leaves(jax.device_get((state, keys)))
    np.savez(path, **{f"leaf_{i}": leaf for i, leaf in enumerate(leaves)})


def load(path, like):
    with np.load(path) as saved:
        leaves = [saved[f"leaf_{i}"] for i in range(len(saved.files))]
    tree = jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(like), leaves)
    devices = jax.local_devices()
    return jax.tree.map(lambda x: device_put_sharded(list(x), devices), tree)


def batch(step):
    rng = np.random.default_rng(step)
    x = rng.normal(size=(jax.local_device_count(), 8, 4)).astype(np.float32)
    return x, x.sum(-1, keepdims=True) + 1


def train(state, keys, first):
    for step in range(first, first + STEPS):
        state, keys, loss = train_step(state, keys, *batch(step))
    print(f"step {step:2d}  loss {float(jax.device_get(loss)[0]):.6f}")
    return state, keys


def main(folder):
    path = os.path.join(folder, "checkpoint.npz")
    n = jax.local_device_count()
    state = device_put_replicated(init_state(jax.random.PRNGKey(0)), jax.local_devices())
    keys = jax.random.split(jax.random.PRNGKey(1), n)
    if os.path.exists(path):
        print("resumed")
        state, keys = load(path, (state, keys))
        state, keys = train(state, keys, STEPS)
    else:
        state, keys = train(state, keys, 0)
        save(path, state, keys)
        state, keys = load(path, (state, keys))
        state, keys = train(state, keys, STEPS)
    print(f"w {np.asarray(state['params']['w'][0]).sum():.5f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(folder)
