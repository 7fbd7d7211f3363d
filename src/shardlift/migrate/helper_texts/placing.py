"""Arrays with one row on each device: made of one value, or of one value a device."""

import collections
import itertools

import jax
import jax.numpy as jnp
import numpy as np


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
