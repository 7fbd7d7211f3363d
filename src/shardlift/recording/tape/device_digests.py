"""Digests of arrays, computed where the arrays lie: one function for all leaves of a call.

Each device adds up the mixed words of its own parts (see `capture.array_digest`), and the host
reads five numbers per leaf and device instead of the leaf. What cannot be digested here is read.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardlift.capture.array_digest import mix, text_of
from shardlift.mapping.axes import Axis

MOST_STACKED = 64 * 2**20  # bytes of leaves of one kind that are copied into one array
NUMBERS = 5  # per leaf and device: two sums of the whole, two of the first row, are all rows equal


class LeafKind(NamedTuple):
    """What the program for a leaf depends on: leaves of one kind are digested together."""

    shape: tuple[int, ...]
    dtype: Any
    split: tuple[str, ...]  # the axes of the mesh over which ``axis`` is split
    axis: int | None


class DeviceDigest(NamedTuple):
    """The digest of a leaf, and what is known of its form."""

    shape: tuple[int, ...]  # of the data of keys
    axis: int | None
    text: str


Home: TypeAlias = Mesh | jax.Device
Placed: TypeAlias = tuple[Home, jax.Array, LeafKind]


def digest_on_devices(leaves: Sequence[tuple[Any, Axis]]) -> list[DeviceDigest | None]:
    """The digest of each leaf with its device axis.

    None: it has to be read, for it is no array or one of several processes, its copies disagree, or
    its layout is another.
    """
    digests: list[DeviceDigest | None] = [None] * len(leaves)
    homes: dict[Home, list[tuple[int, jax.Array, LeafKind]]] = {}
    for k, (leaf, axis) in enumerate(leaves):
        placed = _placed(leaf, axis)
        if placed is not None:
            homes.setdefault(placed[0], []).append((k, *placed[1:]))
    for home, members in homes.items():
        try:
            found = _digests(home, [kind for _, _, kind in members], [x for _, x, _ in members])
        except Exception:  # a type or a placement that this JAX cannot digest
            continue
        for (k, _, _), digest in zip(members, found, strict=True):
            digests[k] = digest
    return digests


def _placed(leaf: Any, axis: Axis) -> Placed | None:
    if not isinstance(leaf, jax.Array) or leaf.is_deleted():
        return None
    how = _home(leaf.sharding, leaf.ndim)
    if how is None or not leaf.is_fully_addressable:
        return None
    home, split_axis, split = how
    if split_axis is not None and axis not in (None, split_axis):
        return None
    axis = split_axis if axis is None else axis
    return home, leaf, LeafKind(leaf.shape, leaf.dtype, split, axis)


@functools.lru_cache(maxsize=4096)
def _home(sharding: Any, ndim: int) -> tuple[Home, int | None, tuple[str, ...]] | None:
    """The devices, the axis that is split over them, if one is, and by which axes of the mesh."""
    if len(sharding.device_set) == 1:
        (device,) = sharding.device_set
        return device, None, ()
    if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, Mesh):
        return None
    split: dict[int, tuple[str, ...]] = {}
    for k, names in enumerate(tuple(sharding.spec)[:ndim]):
        names = names if isinstance(names, tuple) else (names,)
        axes = tuple(name for name in names if name is not None and sharding.mesh.shape[name] > 1)
        if axes:
            split[k] = axes
    if len(split) > 1:
        return None
    return (sharding.mesh, *next(iter(split.items()), (None, ())))


def _digests(
    home: Home, kinds: Sequence[LeafKind], leaves: Sequence[jax.Array]
) -> list[DeviceDigest | None]:
    program, order = _program(home, tuple(kinds))
    sums = np.asarray(program([leaves[k] for k in order])).astype(np.uint64)
    digests: list[DeviceDigest | None] = [None] * len(leaves)
    columns: dict[tuple[str, ...], list[int]] = {}
    for column, k in enumerate(order):
        columns.setdefault(kinds[k].split, []).append(column)
    for split, chosen in columns.items():
        rows = _texts(home, split, sums[:, chosen])
        for column, text in zip(chosen, rows, strict=True):
            kind = kinds[order[column]]
            shape = (*kind.shape, *_key_shape(kind.dtype))
            digests[order[column]] = text and DeviceDigest(shape, kind.axis, text)
    return digests


def _texts(home: Home, split: tuple[str, ...], sums: Any) -> list[Any]:
    """The digests of leaves that are split alike; None if copies of a part disagree."""
    part = _parts(home, split)
    firsts = np.unique(part, return_index=True)[1]
    agree = (sums == sums[firsts][part]).all(axis=(0, 2))
    sums = sums[firsts]
    whole = sums[:, :, :2].sum(axis=0) % 2**32
    common = (sums[:, :, 2:4] == sums[:1, :, 2:4]).all(axis=(0, 2)) & sums[:, :, 4].all(axis=0)
    rows = sums[0, :, 2:4].tolist()
    return [
        text_of(total, row if is_common else None) if agreed else None
        for total, row, is_common, agreed in zip(
            whole.tolist(), rows, common.tolist(), agree.tolist(), strict=True
        )
    ]


def _parts(home: Home, split: tuple[str, ...]) -> Any:
    """Which part of an array each device of a mesh holds."""
    if not isinstance(home, Mesh):
        return np.zeros(1, np.int64)
    number = np.zeros(home.devices.shape, np.int64)
    for name in split:
        axis = home.axis_names.index(name)
        shape = [-1 if k == axis else 1 for k in range(number.ndim)]
        number = number * home.shape[name] + np.arange(home.shape[name]).reshape(shape)
    return number.reshape(-1)


# ---- the program


@functools.lru_cache(maxsize=256)
def _program(home: Home, kinds: tuple[LeafKind, ...]) -> tuple[Any, list[int]]:
    """The function that digests leaves of these kinds, and the order in which it takes them."""
    same: dict[LeafKind, list[int]] = {}
    for k, kind in enumerate(kinds):
        same.setdefault(kind, []).append(k)
    order = [k for members in same.values() for k in members]
    counts = [(kind, len(members)) for kind, members in same.items()]
    sizes = dict(home.shape) if isinstance(home, Mesh) else {}

    def digest(leaves: list[Any]) -> Any:
        rows, start = [], 0
        for kind, count in counts:
            rows += _sums_of_kind(kind, leaves[start : start + count], sizes)
            start += count
        return jnp.concatenate(rows)[None]

    if not isinstance(home, Mesh):
        return jax.jit(digest), order
    specs = [_spec(kinds[k]) for k in order]
    everywhere = PartitionSpec(home.axis_names)
    mapped = jax.shard_map(
        digest, mesh=home, in_specs=(specs,), out_specs=everywhere, check_vma=False
    )
    return jax.jit(mapped), order


def _spec(kind: LeafKind) -> PartitionSpec:
    if kind.axis is None or not kind.split:
        return PartitionSpec()
    return PartitionSpec(*[None] * kind.axis, kind.split)


def _sums_of_kind(kind: LeafKind, leaves: list[Any], sizes: dict[str, int]) -> list[Any]:
    """The numbers of leaves of one kind; stacked, so that few operations have to be compiled."""
    most = max(MOST_STACKED // max(leaves[0].size * kind.dtype.itemsize, 1), 1)
    rows = []
    for start in range(0, len(leaves), most):
        chunk = leaves[start : start + most]
        # Without the barrier XLA would compile a branch for each leaf.
        stacked = jax.lax.optimization_barrier(jnp.stack(chunk)) if chunk[1:] else chunk[0][None]
        rows.append(_sums(kind, _words(stacked), sizes))
    return rows


def _words(array: Any) -> Any:
    """The elements as words of 32 bits; several of one element are a last axis."""
    if jnp.issubdtype(array.dtype, jax.dtypes.prng_key):
        array = jax.random.key_data(array)
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        array = jnp.stack([array.real, array.imag], axis=-1)
    if array.dtype == jnp.bool_:
        return array.astype(jnp.uint32)
    bits = jax.dtypes.itemsize_bits(array.dtype)
    unsigned = jnp.uint32 if bits > 32 else jnp.dtype(f"uint{bits}")
    words = jax.lax.bitcast_convert_type(array, unsigned)
    return words.astype(jnp.uint32)


def _sums(kind: LeafKind, words: Any, sizes: dict[str, int]) -> Any:
    """For each of the stacked leaves, the numbers of the part of it that this device holds."""
    block = words.shape[1:]
    axis = kind.axis or 0
    offset = 0
    if kind.split:
        offset = jax.lax.axis_index(kind.split) * block[axis]
    parts = math.prod(sizes[name] for name in kind.split)
    whole = [n * parts if k == axis else n for k, n in enumerate(block)]
    places = _places(block, whole, {axis: offset})
    totals = [_add(mixed) for mixed in mix(words, places)]
    if not (kind.shape or _key_shape(kind.dtype)):  # no rows, only the words of one element
        first, is_common = totals, jnp.zeros(len(words), jnp.uint32)
    else:
        row = jax.lax.slice_in_dim(words, 0, min(1, block[axis]), axis=axis + 1)
        others = [1 if k == axis else n for k, n in enumerate(block)]
        first = [_add(mixed) for mixed in mix(row, _places(row.shape[1:], others, {}))]
        equal = (words == row) if block[axis] else jnp.zeros((len(words), 1), bool)
        is_common = equal.reshape(len(words), -1).all(axis=1) & (block[axis] * parts > 1)
        is_common = is_common & (words.size > 0)
    return jnp.stack([*totals, *first, is_common.astype(jnp.uint32)], axis=1)


def _add(mixed: Any) -> Any:
    return mixed.reshape(len(mixed), -1).sum(axis=1, dtype=jnp.uint32)


def _places(block: Sequence[int], whole: Sequence[int], offsets: dict[int, Any]) -> Any:
    """The place of each word of a block in the whole array, in C order, with an axis in front."""
    place = jnp.zeros((1, *block), jnp.uint32)
    stride = 1
    for k in reversed(range(len(block))):
        along = jax.lax.broadcasted_iota(jnp.uint32, (1, *block), k + 1)
        along = along + jnp.asarray(offsets.get(k, 0)).astype(jnp.uint32)
        place = place + along * np.uint32(stride % 2**32)
        stride *= whole[k]
    return place


@functools.lru_cache(maxsize=64)
def _key_shape(dtype: Any) -> tuple[int, ...]:
    """The axes that the data of keys have more than the keys."""
    if not jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return ()
    return jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), dtype)).shape
