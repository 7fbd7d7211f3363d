"""Arrays with one row on each device: made of one value, or of one value per device."""

import collections
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def device_put_sharded(shards: Sequence[Any], devices: Sequence[jax.Device]) -> Any:
    """Put `shards[i]` on `devices[i]`, as the rows of one array per leaf."""
    mesh = jax.sharding.Mesh(devices, ("devices",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("devices"))

    def put(*xs: Any) -> jax.Array:
        blocks = [x[None] for x in jax.device_put(xs, tuple(devices))]
        shape = (len(devices), *blocks[0].shape[1:])
        return jax.make_array_from_single_device_arrays(shape, rows, blocks)

    return jax.tree_util.tree_map(put, *shards)


def device_put_replicated(x: Any, devices: Sequence[jax.Device]) -> Any:
    """Put `x` on every device, as the rows of one array per leaf."""
    mesh = jax.sharding.Mesh(devices, ("devices",))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("devices"))
    stack = jax.jit(jnp.broadcast_to, static_argnums=1, out_shardings=rows)
    x = jax.device_put(x, whole)
    return jax.tree_util.tree_map(lambda y: stack(y, (mesh.size, *y.shape)), x)


def replicate(tree: Any, devices: Sequence[jax.Device] | None = None) -> Any:
    """Put `tree` on every device, as the rows of one array per leaf."""
    return device_put_replicated(tree, devices or jax.local_devices())


def prefetch_to_device(
    iterator: Iterator[Any], size: int, devices: Sequence[jax.Device] | None = None
) -> Iterator[Any]:
    """Yield what `iterator` yields, put on the devices `size` items ahead."""
    mesh = jax.sharding.Mesh(devices or jax.local_devices(), ("devices",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("devices"))
    queue: collections.deque[Any] = collections.deque()

    def own(x: Any) -> Any:  # the iterator may fill the same buffer again
        return x.copy() if isinstance(x, np.ndarray) else x

    def enqueue(count: int) -> None:
        for item in itertools.islice(iterator, count):
            queue.append(jax.device_put(jax.tree_util.tree_map(own, item), rows))

    enqueue(size)
    while queue:
        yield queue.popleft()
        enqueue(1)
