"""Moving an array to another sharding without a second whole copy of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
from jax.sharding import Sharding

from shardlift import _compat

Box = tuple[tuple[int, int], ...]


def is_key(array: jax.Array) -> bool:
    """Is this an array of typed PRNG keys?"""
    return bool(jax.numpy.issubdtype(array.dtype, jax.dtypes.prng_key))


def rewrap(array: jax.Array, sharding: Sharding) -> jax.Array:
    """The same buffers under another, equivalent sharding: no byte is copied."""
    if _is_weak(array):
        return jax.device_put(array, sharding)
    if not is_key(array):
        return _compat.rewrap(array, array.shape, sharding)
    shards = [shard.data for shard in array.addressable_shards]
    return jax.make_array_from_single_device_arrays(array.shape, sharding, shards)


def move(array: jax.Array, sharding: Sharding, *, free: bool = False) -> jax.Array:
    """``array`` under ``sharding``; with ``free`` each source shard is freed once it is used.

    ``jax.device_put`` keeps the source until the result is complete. A donated input is not
    needed any more, so with ``free`` the pieces are moved one by one, and each source shard is
    freed before the next piece is moved: the peak of memory is one shard more than the result,
    if the source is in shards. A source in one buffer can only be freed as a whole.
    """
    if not free:
        return jax.device_put(array, sharding)
    if is_key(array):  # its shards are indexed like the plain array of its data
        data = move(jax.random.key_data(array), sharding, free=True)
        array.delete()
        return jax.random.wrap_key_data(data, impl=jax.random.key_impl(array))
    places = sharding.addressable_devices_indices_map(array.shape)
    boxes = {device: _box(index or (), array.shape) for device, index in places.items()}
    sources = {device: _source(array, box, device) for device, box in boxes.items()}
    is_cut = any(shard is None for shard in sources.values())  # a piece is in several shards
    if is_cut or _is_weak(array):
        moved = jax.device_put(array, sharding, may_alias=False)
        jax.block_until_ready(moved)
    else:
        moved = _move_pieces(array, sharding, boxes, sources)
    array.delete()
    return moved


def _is_weak(array: jax.Array) -> bool:
    """Whether it has the type of a Python number; arrays made of shards have not (0.12.0)."""
    return bool(getattr(array, "weak_type", False))


def _move_pieces(
    array: jax.Array, sharding: Sharding, boxes: dict[Any, Box], sources: dict[Any, Any]
) -> jax.Array:
    readers = Counter(shard.device for shard in sources.values())
    pieces = []
    for device, shard in sources.items():
        block, box = shard.data, _box(shard.index, array.shape)
        whole = boxes[device] == box
        if not whole:
            pairs = zip(boxes[device], box, strict=True)
            block = block[tuple(slice(a - low, b - low) for (a, b), (low, _) in pairs)]
        # A buffer of its own: the shard will be freed.
        piece = jax.device_put(block, device, may_alias=False if whole else None)
        pieces.append(jax.block_until_ready(piece))
        readers[shard.device] -= 1
        if not readers[shard.device]:
            shard.data.delete()
    return jax.make_array_from_single_device_arrays(array.shape, sharding, pieces)


def _source(array: jax.Array, box: Box, device: Any) -> Any:
    """The shard that holds all of ``box``, on the same device if there is one."""
    fits = [
        shard
        for shard in array.addressable_shards
        if all(
            low <= a and b <= high
            for (a, b), (low, high) in zip(box, _box(shard.index, array.shape), strict=True)
        )
    ]
    return next((shard for shard in fits if shard.device == device), fits[0] if fits else None)


def _box(index: tuple[slice, ...], shape: tuple[int, ...]) -> Box:
    return tuple(s.indices(n)[:2] for s, n in zip(index, shape, strict=True))
