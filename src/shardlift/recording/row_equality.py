"""Are the rows, or the replicas, of a leaf the same on all devices of this process?

Small blocks, and all blocks of a CPU, are read by the host, where they lie or nearly so. Large
blocks of an accelerator stay there: each device digests its own, and the digests are compared. No
collective is used, so processes need not agree on when to compare.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import numpy as np

from shardlift.arrays.replicas import host_bits
from shardlift.recording.tape.device_digests import digest_on_devices

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
        return None if leaf.is_deleted() else _compare_array(leaf, axis)
    if isinstance(leaf, np.ndarray) and not leaf.dtype.hasobject and leaf.nbytes <= LARGEST:
        return _compare_rows(leaf, axis)
    return None


def _compare_array(leaf: jax.Array, axis: int | None) -> Comparison | None:
    blocks = [shard.data for shard in leaf.addressable_shards]
    wanted = leaf.shape if axis is None else (*leaf.shape[:axis], 1, *leaf.shape[axis + 1 :])
    if all(block.shape == wanted for block in blocks):
        return _compare_blocks(blocks) if len(blocks) > 1 else None
    small = leaf.is_fully_addressable and leaf.size * leaf.dtype.itemsize <= SMALL
    return _compare_rows(host_bits(leaf), axis) if small else None


def _compare_rows(array: np.ndarray[Any, Any], axis: int | None) -> Comparison | None:
    if axis is None or array.shape[axis] < 2:
        return None
    return _compare_on_host(np.moveaxis(array, axis, 0))


def _compare_blocks(blocks: list[jax.Array]) -> Comparison | None:
    nbytes = blocks[0].size * blocks[0].dtype.itemsize
    if nbytes > SMALL and not on_host(blocks[0]):
        digests = digest_on_devices([(block, None) for block in blocks])
        texts = ["" if digest is None else digest.text for digest in digests]
        return Comparison(len({*texts}) == 1, f"sum:{texts[0]}") if all(texts) else None
    return _compare_on_host(map(host_bits, blocks)) if nbytes * len(blocks) <= LARGEST else None


def _compare_on_host(rows: Iterable[np.ndarray[Any, Any]]) -> Comparison:
    contents = (np.ascontiguousarray(row).reshape(-1).view(np.uint8).data for row in rows)
    first = next(contents)
    digest = "blake2b:" + hashlib.blake2b(first, digest_size=8).hexdigest()
    return Comparison(all(content == first for content in contents), digest)


def on_host(block: jax.Array) -> bool:
    """Is it in host memory?"""
    return all(device.platform == "cpu" for device in block.devices())
