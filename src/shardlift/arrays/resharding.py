"""Moving an array to another sharding."""

from __future__ import annotations

import jax
from jax.sharding import Sharding

from shardlift import _compat


def is_key(array: jax.Array) -> bool:
    """Is this an array of typed PRNG keys?"""
    return bool(jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key))


def rewrap(array: jax.Array, sharding: Sharding) -> jax.Array:
    """The same buffers under another, equivalent sharding: no byte is copied."""
    if is_key(array) or array.weak_type:  # an array made of shards has no weak type (0.12.0)
        return jax.device_put(array, sharding)
    return _compat.rewrap(array, array.shape, sharding)


def move(array: jax.Array, sharding: Sharding, *, free: bool = False) -> jax.Array:
    """``array`` under ``sharding``; with ``free`` the source is freed once it has been moved.

    Not if the result has some of its buffers (0.10 to 0.12 ignore ``may_alias=False``): then it is
    donated with the result.
    """
    moved: jax.Array = jax.device_put(array, sharding)
    if free and not _pointers(array) & _pointers(moved):
        jax.block_until_ready(moved)
        array.delete()
    return moved


def _pointers(array: jax.Array) -> set[int]:
    data = jax.random.key_data(array) if is_key(array) else array
    return {shard.data.unsafe_buffer_pointer() for shard in data.addressable_shards}
