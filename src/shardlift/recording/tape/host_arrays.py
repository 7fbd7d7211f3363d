"""Arrays of a call, read by the host, with their layout."""

from __future__ import annotations

import functools
import math
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from shardlift.arrays.replicas import host_bits
from shardlift.capture.array_digest import digest_of
from shardlift.capture.layouts import Array
from shardlift.capture.schema import ArrayForm
from shardlift.recording.mapped_calls import Rows
from shardlift.recording.tape.device_digests import digest_on_devices


class HostArray(NamedTuple):
    """An array read by the host; without values if it has no bytes to compare."""

    form: ArrayForm
    values: Array | None
    digest: str


# Whether the values of a leaf are wanted; the second is what is known of it already.
Wanted = Callable[[Any, HostArray | None], bool]


class Reader:
    """Reads arrays. Remembers the digests of arrays that are still alive."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], HostArray]] = {}

    def read(self, rows: Rows, wanted: Wanted) -> list[HostArray]:
        """The arrays of a call; with values where they are wanted, else digested by the devices."""
        hosts = [self._recall(*row, wanted) for row in rows]
        digested = [
            k for k, host in enumerate(hosts) if host is None and not wanted(rows[k][1], None)
        ]
        digests = digest_on_devices([rows[k][1:] for k in digested])
        for k, digest in zip(digested, digests, strict=True):
            if digest is not None:
                path, leaf, _ = rows[k]
                form = ArrayForm(path, _dtype_name(leaf.dtype), leaf.shape, digest.axis)
                hosts[k] = self._remember(leaf, HostArray(form, None, digest.text))
        return [
            self._read(row, wanted) if host is None else host
            for row, host in zip(rows, hosts, strict=True)
        ]

    def _read(self, row: tuple[str, Any, int | None], wanted: Wanted) -> HostArray:
        host = self._remember(row[1], read_array(*row))
        return host if wanted(row[1], None) else host._replace(values=None)

    def _recall(self, path: str, leaf: Any, axis: int | None, wanted: Wanted) -> HostArray | None:
        known = self._known.get(id(leaf))
        same = known is not None and known[0]() is leaf
        if known is None or not same or leaf.is_deleted():
            return None
        host = known[1]
        if (axis is not None and axis != host.form.axis) or wanted(leaf, host):
            return None
        return host._replace(form=replace(host.form, path=path))

    def _remember(self, leaf: Any, host: HostArray) -> HostArray:
        if isinstance(leaf, jax.Array):
            number = id(leaf)
            gone = weakref.ref(leaf, lambda _: self._known.pop(number, None))
            self._known[number] = (gone, host._replace(values=None))
        return host


def read_array(path: str, leaf: Any, axis: int | None = None) -> HostArray:
    """Read an array. ``axis`` is the one that is split over the devices, if the caller knows."""
    if isinstance(leaf, jax.Array):
        rows = None if leaf.is_deleted() else _rows_of(leaf, axis)
        if rows is None:
            return HostArray(ArrayForm(path, str(leaf.dtype), leaf.shape, axis), None, "")
        array, axis, agree = rows
    else:
        array, agree = np.asarray(leaf), True
        if array.dtype.hasobject or array.dtype.kind in "USMm":
            return HostArray(ArrayForm(path, type(leaf).__name__, ()), None, "")
    dtype = _dtype_name(getattr(leaf, "dtype", array.dtype))
    form = ArrayForm(path, dtype, array.shape, axis, agree)
    return HostArray(form, array, digest_of(array, axis))


@functools.cache
def _dtype_name(dtype: Any) -> str:
    return str(dtype)


def _rows_of(leaf: jax.Array, axis: int | None) -> tuple[Array, int | None, bool] | None:
    """The values, the device axis, and whether copies on several devices agree.

    Of a global array, the part of this process; None if that is not a range of rows.
    """
    whole = leaf.is_fully_addressable
    if (not whole or has_copies(leaf)) and not copies_agree(leaf):
        # What each device holds, where devices that should have copies disagree.
        return np.stack([host_bits(shard.data) for shard in leaf.addressable_shards]), 0, False
    split = split_axis(leaf)
    axis = split if axis is None or not whole else axis
    if axis is None:
        return host_bits(leaf.addressable_shards[0].data), None, True
    rows = None if split is None else _joined_shards(leaf, split)
    if rows is None and whole:
        rows = host_bits(leaf)
    return None if rows is None else (rows, axis, True)


def _joined_shards(leaf: jax.Array, axis: int) -> Array | None:
    """The shards of this process, joined; None if another axis is split as well.

    JAX 0.10 and 0.12 read eight small shards in a fifth of the time that they need for the array.
    """
    block = leaf.sharding.shard_shape(leaf.shape)
    if any(k != axis and block[k] != leaf.shape[k] for k in range(leaf.ndim)):
        return None
    shards = {shard.index[axis].start or 0: shard.data for shard in leaf.addressable_shards}
    bits = host_bits if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else np.asarray
    return np.concatenate([bits(shards[start]) for start in sorted(shards)], axis)


def has_copies(leaf: jax.Array) -> bool:
    """Do several devices hold the same part of an array?"""
    block = leaf.sharding.shard_shape(leaf.shape)
    parts = math.prod(
        -(-whole // part) for whole, part in zip(leaf.shape, block, strict=True) if part
    )
    return parts < len(leaf.sharding.device_set)


def copies_agree(leaf: jax.Array) -> bool:
    """Are the copies of each part of an array equal, bit by bit?"""
    first: dict[Any, Array] = {}
    for shard in leaf.addressable_shards:
        bits = host_bits(shard.data)
        place = tuple((part.start, part.stop) for part in shard.index)
        if first.setdefault(place, bits) is not bits and first[place].tobytes() != bits.tobytes():
            return False
    return True


def split_axis(leaf: jax.Array) -> int | None:
    """The first axis that is split over the devices."""
    if len(leaf.sharding.device_set) < 2:
        return None
    block = leaf.sharding.shard_shape(leaf.shape)
    pairs = enumerate(zip(leaf.shape, block, strict=True))
    return next((k for k, (whole, part) in pairs if whole != part), None)
