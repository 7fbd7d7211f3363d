"""Training that is saved and resumed, with the device axis in the file."""

import functools
import os
import sys
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def shard_map_per_device(f, axis_name="devices"):
    """`jax.shard_map` of `f`, with one row of every argument on each device.

    `f` sees its row without the leading axis, which is put back on what it returns. The mesh is
    made when `f` is traced: before that, no device is touched.
    """

    @functools.wraps(f)
    def mapped(*args, **kwargs):
        def one_row(args, kwargs):
            args, kwargs = jax.tree.map(lambda x: jnp.squeeze(x, 0), (args, kwargs))
            return jax.tree.map(lambda x: jnp.expand_dims(x, 0), f(*args, **kwargs))

        rows = len(jax.tree.leaves((args, kwargs))[0])
        devices = jax.devices()[: rows * jax.process_count()]
        mesh = jax.sharding.Mesh(np.array(devices), (axis_name,))
        spec = jax.P(axis_name)
        sharded = jax.shard_map(one_row, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        return sharded(args, kwargs)

    return mapped


def device_put_sharded(shards, devices):
    """Put `shards[i]` on `devices[i]`: one array a leaf, whose rows are never stacked elsewhere."""
    if len(shards) != len(devices):
        raise ValueError(f"{len(shards)} shards cannot go on {len(devices)} devices")
    placed = [jax.device_put(jax.tree.map(as_row, x), d) for x, d in zip(shards, devices)]
    sharding = row_per_device(devices)
    return jax.tree.map(lambda *rows: join_rows(rows, sharding), *placed)


def device_put_replicated(x, devices):
    """Put `x` on each device: one array a leaf, whose rows are never stacked elsewhere."""
    sharding = row_per_device(devices)
    copies = jax.device_put(jax.tree.map(as_row, x), jax.NamedSharding(sharding.mesh, jax.P()))
    return jax.tree.map(
        lambda copy: join_rows([shard.data for shard in copy.addressable_shards], sharding), copies
    )


def row_per_device(devices):
    """The sharding of arrays that have one row on each device."""
    return jax.NamedSharding(jax.sharding.Mesh(np.array(devices), ("devices",)), jax.P("devices"))


def as_row(x):
    """`x` with a leading axis of one; a NumPy array is only copied to where it goes."""
    return x[None] if isinstance(x, np.ndarray) else add_leading_axis(x)


add_leading_axis = jax.jit(lambda x: x[None])


def join_rows(rows, sharding):
    """One array of rows that are where they belong."""
    if jax.typeof(rows[0]).weak_type:  # as Python scalars are; made of shards it would be lost
        stacked = jnp.concatenate(jax.device_put(list(rows), rows[0].sharding))
        return jax.device_put(stacked, sharding)
    shape = (len(rows), *rows[0].shape[1:])
    return jax.make_array_from_single_device_arrays(shape, sharding, list(rows))


def unreplicate(tree):
    """The first device's row of every leaf, on that device: nothing is gathered."""

    def first(x):
        if getattr(x, "ndim", 1) == 0:
            return x  # a scalar has no rows
        return first_row(x) if has_rows(x) else x[0]

    return jax.tree.map(first, tree)


def has_rows(x):
    """Whether `x` lies on devices that hold whole rows of it."""
    if not isinstance(x, jax.Array) or isinstance(x, jax.core.Tracer):
        return False
    return x.ndim > 0 and x.sharding.shard_shape(x.shape)[1:] == x.shape[1:]


def first_row(x):
    """The row on the first local device of `x`."""
    return first_of_block(x.addressable_data(0))


first_of_block = jax.jit(lambda block: block[0])


STEPS = 20


def init_state(key):
    params = {"w": 0.1 * jax.random.normal(key, (4, 1)), "b": jnp.zeros(1)}
    return {"params": params, "momentum": jax.tree.map(jnp.zeros_like, params)}


@functools.partial(jax.jit, donate_argnums=(0,))
@functools.partial(shard_map_per_device, axis_name="batch")
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
    print(f"step {step:2d}  loss {float(unreplicate(loss)):.6f}")
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
