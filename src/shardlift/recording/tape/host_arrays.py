"""Arrays of a call, read by the host, with their layout."""

from __future__ import annotations

import math
import weakref
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from shardlift.arrays.replicas import host_bits
from shardlift.capture.layouts import Array, digest_of
from shardlift.capture.schema import Form


class HostArray(NamedTuple):
    """An array read by the host; without values if it has no bytes to compare."""

    form: Form
    values: Array | None
    digest: str


class Reader:
    """Reads arrays. Remembers the digests of arrays that are still alive."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], HostArray]] = {}

    def read(self, path: str, leaf: Any, axis: int | None = None, want: bool = False) -> HostArray:
        """The array ``leaf``; with its values if it was not known, or if they are wanted."""
        known = self._known.get(id(leaf))
        if known is not None and known[0]() is leaf and not want:
            host = known[1]
            if axis is None or axis == host.form.axis:
                return host._replace(form=_renamed(host.form, path))
        host = read_array(path, leaf, axis)
        if isinstance(leaf, jax.Array):
            number = id(leaf)
            gone = weakref.ref(leaf, lambda _: self._known.pop(number, None))
            self._known[number] = (gone, host._replace(values=None))
        return host


def _renamed(form: Form, path: str) -> Form:
    return replace(form, path=path)


def read_array(path: str, leaf: Any, axis: int | None = None) -> HostArray:
    """Read an array. ``axis`` is the one that is split over the devices, if the caller knows."""
    if isinstance(leaf, jax.Array):
        if leaf.is_deleted():
            return HostArray(Form(path, str(leaf.dtype), leaf.shape, axis), None, "")
        found = _rows_of(leaf, axis) if leaf.is_fully_addressable else _own_rows_of(leaf)
        if found is None:
            return HostArray(Form(path, str(leaf.dtype), leaf.shape, axis), None, "")
        array, axis, agree = found
    else:
        array, agree = np.asarray(leaf), True
        if array.dtype.hasobject or array.dtype.kind in "USMm":
            return HostArray(Form(path, type(leaf).__name__, ()), None, "")
    dtype = str(getattr(leaf, "dtype", array.dtype))
    form = Form(path, dtype, array.shape, axis, agree)
    return HostArray(form, array, digest_of(array, axis))


def _rows_of(leaf: jax.Array, axis: int | None) -> tuple[Array, int | None, bool]:
    """The values, the device axis, and whether copies on several devices agree."""
    if axis is None:
        axis = split_axis(leaf)
    if has_copies(leaf) and not copies_agree(leaf):
        return _all_shards(leaf)
    return host_bits(leaf if axis is not None else leaf.addressable_shards[0].data), axis, True


def _own_rows_of(leaf: jax.Array) -> tuple[Array, int | None, bool] | None:
    """The part of this process of a global array; None if it is not a range of rows."""
    if not copies_agree(leaf):
        return _all_shards(leaf)
    axis = split_axis(leaf)
    shards = leaf.addressable_shards
    if axis is None:
        return host_bits(shards[0].data), None, True
    rows = {shard.index[axis].start or 0: shard for shard in shards}
    block = leaf.sharding.shard_shape(leaf.shape)
    if any(k != axis and block[k] != leaf.shape[k] for k in range(leaf.ndim)):
        return None
    parts = [host_bits(rows[start].data) for start in sorted(rows)]
    return np.concatenate(parts, axis), axis, True


def _all_shards(leaf: jax.Array) -> tuple[Array, int | None, bool]:
    """What each device holds, where devices that should have copies disagree."""
    return np.stack([host_bits(shard.data) for shard in leaf.addressable_shards]), 0, False


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
