"""Arrays with one row on each device: making them of one value, or of one value a device."""

import collections
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding


def device_put_sharded(shards: Sequence[Any], devices: Sequence[Any]) -> Any:
    """Put `shards[i]` on `devices[i]`: a row of one array a leaf, without stacking them first."""
    if len(shards) != len(devices):
        raise ValueError(f"{len(shards)} shards cannot go on {len(devices)} devices")
    placed = [jax.device_put(jax.tree.map(_row, x), d) for x, d in zip(shards, devices)]
    sharding = row_per_device(devices)
    return jax.tree.map(lambda *rows: _joined(rows, sharding), *placed)


def device_put_replicated(x: Any, devices: Sequence[Any]) -> Any:
    """Put a copy of `x` on each device: a row of one array a leaf, without stacking them first."""
    sharding = row_per_device(devices)
    copies = jax.device_put(jax.tree.map(_row, x), NamedSharding(sharding.mesh, jax.P()))
    return jax.tree.map(lambda c: _joined([s.data for s in c.addressable_shards], sharding), copies)


def replicate(tree: Any, devices: Sequence[Any] | None = None) -> Any:
    """Put a copy of `tree` on each device, all local ones unless given."""
    return device_put_replicated(tree, devices or jax.local_devices())


def prefetch_to_device(
    iterator: Iterator[Any], size: int, devices: Sequence[Any] | None = None
) -> Iterator[Any]:
    """What `iterator` yields, rows put on their devices `size` items ahead."""
    sharding = row_per_device(devices or jax.local_devices())
    queue: collections.deque[Any] = collections.deque()

    def enqueue(count: int) -> None:
        for item in itertools.islice(iterator, count):
            queue.append(jax.device_put(item, sharding))

    enqueue(size)
    while queue:
        yield queue.popleft()
        enqueue(1)


def row_per_device(devices: Sequence[Any]) -> NamedSharding:
    """The sharding of an array that has one row on each device."""
    return NamedSharding(Mesh(np.array(devices), ("devices",)), jax.P("devices"))


def _row(x: Any) -> Any:
    # A view of a NumPy array: it is copied once, to where it goes.
    return x[None] if isinstance(x, np.ndarray) else _with_leading_axis(x)


@jax.jit
def _with_leading_axis(x: jax.Array) -> jax.Array:
    return x[None]


def _joined(rows: Sequence[jax.Array], sharding: NamedSharding) -> jax.Array:
    if rows[0].weak_type:  # Python scalars; an array made of shards cannot be weakly typed
        first = sharding.mesh.devices.flat[0]
        return jax.device_put(jnp.concatenate(jax.device_put(list(rows), first)), sharding)
    shape = (len(rows), *rows[0].shape[1:])
    return jax.make_array_from_single_device_arrays(shape, sharding, list(rows))
