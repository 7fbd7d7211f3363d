"""A data pipeline: batches are made on the host, and wait on the devices before they are needed."""

import collections
import functools
import itertools

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


def device_put_replicated(x, devices):
    """Put `x` on each device: one array a leaf, whose rows are never stacked elsewhere."""
    sharding = row_per_device(devices)
    copies = jax.device_put(jax.tree.map(as_row, x), jax.NamedSharding(sharding.mesh, jax.P()))
    return jax.tree.map(
        lambda copy: join_rows([shard.data for shard in copy.addressable_shards], sharding), copies
    )


def replicate(tree, devices=None):
    """Put `tree` on each of `devices`, the local ones unless given."""
    return device_put_replicated(tree, devices or jax.local_devices())


def prefetch_to_device(iterator, size, devices=None):
    """Yield what `iterator` yields, rows put on their devices `size` items ahead."""
    sharding = row_per_device(devices or jax.local_devices())
    queue = collections.deque()

    def own(x):  # the iterator may fill the same buffer again
        return x.copy() if isinstance(x, np.ndarray) else x

    def enqueue(count):
        for item in itertools.islice(iterator, count):
            queue.append(jax.device_put(jax.tree.map(own, item), sharding))

    enqueue(size)
    while queue:
        yield queue.popleft()
        enqueue(1)


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


STEPS, BATCH = 50, 64


def examples():
    """Pictures of a bar, and how steep it is."""
    rng = np.random.default_rng(0)
    grid = np.arange(8) - 3.5
    while True:
        angle = rng.uniform(-1, 1, size=BATCH)
        normal = np.stack([np.cos(angle), np.sin(angle)])
        distance = np.einsum("ib,iyx->byx", normal, np.stack(np.meshgrid(grid, grid)))
        yield np.exp(-(distance**2)), angle


def prepare_batch(batch):
    """A row for each device, in the type that they compute in."""
    n = jax.local_device_count()

    def prepare(x):
        return x.reshape((n, -1) + x.shape[1:]).astype(np.float32)

    return jax.tree.map(prepare, batch)


def create_input_iterator():
    batches = map(prepare_batch, examples())
    return prefetch_to_device(batches, 2)


@functools.partial(jax.jit, donate_argnums=(0,))
@functools.partial(shard_map_per_device, axis_name="batch")
def train_step(params, batch):
    def loss_fn(params):
        images, angle = batch
        hidden = jnp.tanh(images.reshape(len(images), -1) @ params["w"])
        return jnp.mean((hidden @ params["v"] - angle) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    grads = lax.pmean(grads, "batch")
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params, {"loss": lax.pmean(loss, "batch")}


def main():
    rng = np.random.default_rng(1)
    params = {
        "w": rng.normal(size=(64, 16)).astype(np.float32) / 8,
        "v": rng.normal(size=(16,)).astype(np.float32) / 4,
    }
    params = replicate(params)
    seen = []
    for _, batch in zip(range(STEPS), create_input_iterator()):
        params, metrics = train_step(params, batch)
        seen.append(metrics)
    losses = [float(m["loss"]) for m in jax.device_get(jax.tree.map(lambda x: x[0], seen))]
    print(f"loss {losses[0]:.6f} -> {losses[-1]:.6f}")


if __name__ == "__main__":
    main()
