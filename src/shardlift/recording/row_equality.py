"""Are the rows, or the replicas, of a leaf the same on all devices of this process?

Small blocks, and all blocks of a CPU, are read by the host, where they lie or nearly so. Large
blocks of an accelerator stay there: each device reduces its own to eight bytes, and those are
compared. No collective is used, so processes need not agree on when to compare.
"""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shardlift.arrays.replicas import host_bits
from shardlift.capture.array_digest import mix

SMALL = 64 * 2**10  # bytes of a block that the host reads from an accelerator
LARGEST = 256 * 2**20  # bytes of a leaf that is looked at at all, on the host


class Comparison(NamedTuple):
    """The result for one leaf."""

    equal: bool
    digest: str  # of the first row: processes compare theirs when captures are merged


def compare(leaf: Any, axis: int | None) -> Comparison | None:
    """Compare the rows along ``axis``, or, where it is None, the copies on the devices.

    None: there is nothing to compare, or it would cost too much.
    """
    if isinstance(leaf, jax.Array):
        return _compare_array(leaf, axis)
    if axis is None or not isinstance(leaf, np.ndarray) or leaf.nbytes > LARGEST:
        return None
    if leaf.shape[axis] < 2 or leaf.dtype.hasobject:
        return None
    rows = np.moveaxis(leaf, axis, 0)
    first = _bytes(rows[0])
    return Comparison(all(_bytes(row) == first for row in rows[1:]), _digest(first))


def _compare_array(leaf: jax.Array, axis: int | None) -> Comparison | None:
    if leaf.is_deleted():
        return None
    shards = leaf.addressable_shards
    wanted = leaf.shape if axis is None else (*leaf.shape[:axis], 1, *leaf.shape[axis + 1 :])
    if any(shard.data.shape != wanted for shard in shards):
        return None if axis is None else compare(_on_host(leaf), axis)
    if len(shards) < 2:
        return None
    return _compare_blocks([shard.data for shard in shards])


def _on_host(leaf: jax.Array) -> Any:
    """The values of an array without one row per device, if they are cheap to read."""
    small = leaf.is_fully_addressable and leaf.size * leaf.dtype.itemsize <= SMALL
    return host_bits(leaf) if small else None


def _compare_blocks(blocks: list[jax.Array]) -> Comparison | None:
    nbytes = blocks[0].size * blocks[0].dtype.itemsize
    if nbytes > SMALL and not on_host(blocks[0]):
        sums = [np.asarray(block) for block in [reduced(block) for block in blocks]]
        equal = all(np.array_equal(sums[0], other) for other in sums[1:])
        return Comparison(equal, "sum:" + sums[0].tobytes().hex())
    if nbytes * len(blocks) > LARGEST:
        return None
    first = _bytes(host_bits(blocks[0]))
    same = all(_bytes(host_bits(block)) == first for block in blocks[1:])
    return Comparison(same, _digest(first))


def on_host(block: jax.Array) -> bool:
    """Is it in host memory?"""
    return all(device.platform == "cpu" for device in block.devices())


def _bytes(block: np.ndarray[Any, Any]) -> memoryview:
    return np.ascontiguousarray(block).reshape(-1).view(np.uint8).data


def _digest(data: memoryview) -> str:
    return "blake2b:" + hashlib.blake2b(data, digest_size=8).hexdigest()


@jax.jit
def reduced(block: jax.Array) -> jax.Array:
    """Two sums of the mixed words of a block: other bits, other sums, all but surely.

    >>> import jax.numpy as jnp
    >>> bool((reduced(jnp.array([1.0, 2.0])) == reduced(jnp.array([2.0, 1.0]))).all())
    False
    """
    if jnp.issubdtype(block.dtype, jax.dtypes.prng_key):
        block = jax.random.key_data(block)
    bits = _words(block)
    mixed = mix(bits, jax.lax.iota(jnp.uint32, bits.size))
    return jnp.stack([jnp.sum(part, dtype=jnp.uint32) for part in mixed])


def _words(block: jax.Array) -> jax.Array:
    if jnp.issubdtype(block.dtype, jnp.complexfloating):
        block = jnp.stack([block.real, block.imag])
    if block.dtype == jnp.bool_:
        return block.reshape(-1).astype(jnp.uint32)
    if block.dtype.itemsize > 4:
        return jax.lax.bitcast_convert_type(block, jnp.uint32).reshape(-1)
    width = {1: jnp.uint8, 2: jnp.uint16, 4: jnp.uint32}[block.dtype.itemsize]
    return jax.lax.bitcast_convert_type(block, width).reshape(-1).astype(jnp.uint32)
