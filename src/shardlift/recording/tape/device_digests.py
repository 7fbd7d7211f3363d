"""Digests of arrays, computed where the arrays lie: one function for all leaves of a call.

Each device adds up the mixed words of its own parts (see `capture.array_digest`), and the host
reads five numbers per leaf and device instead of the leaf. What cannot be digested here is read.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardlift.capture.array_digest import mix, text_of
from shardlift.mapping.axes import Axis

MOST_STACKED = 64 * 2**20  # bytes of leaves of one kind that are copied into one array


class LeafKind(NamedTuple):
    """What the program for a leaf depends on: leaves of one kind are digested together."""

    shape: tuple[int, ...]
    dtype: Any
    axis: int | None
    split: tuple[str, ...]  # the axes of the mesh over which ``axis`` is split, if it is


class DeviceDigest(NamedTuple):
    """The digest of a leaf, and its device axis."""

    axis: int | None
    text: str


def digest_on_devices(leaves: Sequence[tuple[Any, Axis]]) -> list[DeviceDigest | None]:
    """The digest of each leaf with its device axis.

    None: it has to be read, for it is no array or one of several processes, its copies disagree, or
    its layout or type is another.
    """
    digests: list[DeviceDigest | None] = [None] * len(leaves)
    homes: dict[Mesh, dict[int, LeafKind]] = {}
    for k, (leaf, axis) in enumerate(leaves):
        if (placed := _placed(leaf, axis)) is not None:
            homes.setdefault(placed[0], {})[k] = placed[1]
    for mesh, kinds in homes.items():
        try:
            program, places = _program(mesh, tuple(kinds.values()))
            sums = np.asarray(program([leaves[k][0] for k in kinds]))[:, places]
            texts = _texts(sums.astype(np.uint64), [*kinds.values()])
        except Exception:  # a type or a placement that this JAX cannot digest
            continue
        for (k, kind), text in zip(kinds.items(), texts, strict=True):
            digests[k] = text and DeviceDigest(kind.axis, text)
    return digests


def _placed(leaf: Any, axis: Axis) -> tuple[Mesh, LeafKind] | None:
    """The devices of a leaf, and its kind."""
    if not isinstance(leaf, jax.Array) or leaf.is_deleted() or not leaf.is_fully_addressable:
        return None
    layout = _layout(leaf.sharding)
    # jaxlib 0.11.2 dies of a segmentation fault when it compiles these sums of an empty array.
    if layout is None or not leaf.size or not _has_words(leaf.dtype):
        return None
    mesh, split_axis, split = layout
    if split_axis is not None and axis not in (None, split_axis):
        return None
    axis = split_axis if axis is None else axis
    return mesh, LeafKind(leaf.shape, leaf.dtype, axis, split)


@functools.cache
def _has_words(dtype: Any) -> bool:
    """Whether an array of this type is a sequence of bits: keys and complex numbers are not."""
    return not any(
        jnp.issubdtype(dtype, kind) for kind in (jax.dtypes.prng_key, jnp.complexfloating)
    )


@functools.lru_cache(maxsize=4096)
def _layout(sharding: Any) -> tuple[Mesh, int | None, tuple[str, ...]] | None:
    """The devices, and the axis that is split over all of them, if one is.

    None: several axes are split, or one over some of the devices.
    """
    if len(sharding.device_set) == 1:
        return Mesh([*sharding.device_set], ("one",)), None, ()
    if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, Mesh):
        return None
    mesh, split = sharding.mesh, {}
    for k, names in enumerate(sharding.spec):
        axes = names if isinstance(names, tuple) else (names,)
        if axes := tuple(name for name in axes if name is not None and mesh.shape[name] > 1):
            split[k] = axes
    axis, names = next(iter(split.items()), (None, ()))
    is_whole = math.prod(mesh.shape[name] for name in names) == mesh.size
    return (mesh, axis, names) if len(split) < 2 and (is_whole or not names) else None


def _texts(sums: Any, kinds: Sequence[LeafKind]) -> list[Any]:
    """The digests of leaves, from five numbers per device and leaf; None if copies disagree."""
    is_split = np.array([bool(kind.split) for kind in kinds])
    agree = is_split | (sums == sums[:1]).all(axis=(0, 2))
    whole = np.where(is_split[:, None], sums[:, :, :2].sum(axis=0) % 2**32, sums[0, :, :2])
    common = (sums[:, :, 2:4] == sums[:1, :, 2:4]).all(axis=(0, 2)) & sums[:, :, 4].all(axis=0)
    rows = zip(*(x.tolist() for x in (agree, whole, common, sums[0, :, 2:4])), strict=True)
    return [
        text_of(total, row if is_common else None) if agreed else None
        for agreed, total, is_common, row in rows
    ]


# ---- the program


@functools.lru_cache(maxsize=256)
def _program(mesh: Mesh, kinds: tuple[LeafKind, ...]) -> tuple[Any, Any]:
    """The function that digests leaves of these kinds, and where in its result each of them is."""
    same: dict[LeafKind, list[int]] = {}
    for k, kind in enumerate(kinds):
        same.setdefault(kind, []).append(k)
    places = np.argsort([k for members in same.values() for k in members])

    def digest(leaves: list[Any]) -> Any:
        rows: list[Any] = []
        for kind, members in same.items():
            rows += _sums_of_kind(kind, [leaves[k] for k in members], mesh.size)
        return jnp.concatenate(rows)[None]

    mapped = jax.shard_map(
        digest,
        mesh=mesh,
        in_specs=([_spec(kind) for kind in kinds],),
        out_specs=PartitionSpec(mesh.axis_names),
        check_vma=False,
    )
    return jax.jit(mapped), places


def _spec(kind: LeafKind) -> PartitionSpec:
    if kind.axis is None or not kind.split:
        return PartitionSpec()
    return PartitionSpec(*[None] * kind.axis, kind.split)


def _sums_of_kind(kind: LeafKind, leaves: list[Any], devices: int) -> list[Any]:
    """The numbers of leaves of one kind; stacked, so that few operations have to be compiled."""
    most = max(MOST_STACKED // max(leaves[0].size * kind.dtype.itemsize, 1), 1)
    rows = []
    for start in range(0, len(leaves), most):
        chunk = leaves[start : start + most]
        # Without the barrier XLA would compile a branch for each leaf.
        stacked = jax.lax.optimization_barrier(jnp.stack(chunk)) if chunk[1:] else chunk[0][None]
        rows.append(_sums(kind, _words(stacked), devices))
    return rows


def _words(array: Any) -> Any:
    """The elements as words of 32 bits; several of one element are a last axis."""
    if array.dtype == jnp.bool_:
        return array.astype(jnp.uint32)
    bits = jax.dtypes.itemsize_bits(array.dtype)
    unsigned = jnp.uint32 if bits > 32 else jnp.dtype(f"uint{bits}")
    return jax.lax.bitcast_convert_type(array, unsigned).astype(jnp.uint32)


def _sums(kind: LeafKind, words: Any, devices: int) -> Any:
    """For each of the stacked leaves, five numbers of the part of it that this device holds.

    Two sums of all words, two of the first row, and whether all rows are equal to it.
    """
    words = words if kind.shape else words[:, None]
    block, axis = words.shape[1:], kind.axis or 0
    length = block[axis] * (devices if kind.split else 1)
    first_row = jax.lax.axis_index(kind.split) * block[axis] if kind.split else 0
    totals = [_add(mixed) for mixed in mix(words, _places(block, axis, length, first_row))]
    row = jax.lax.slice_in_dim(words, 0, min(1, block[axis]), axis=axis + 1)
    first = [_add(mixed) for mixed in mix(row, _places(row.shape[1:], axis, 1, 0))]
    is_common = jnp.zeros(len(words), bool)
    if length > 1:
        is_common = (words == row).reshape(len(words), -1).all(axis=1)
    return jnp.stack([*totals, *first, is_common.astype(jnp.uint32)], axis=1)


def _add(mixed: Any) -> Any:
    return mixed.reshape(len(mixed), -1).sum(axis=1, dtype=jnp.uint32)


def _places(block: Sequence[int], axis: int, length: int, first_row: Any) -> Any:
    """The place of each word in the whole array, in C order, with an axis in front.

    ``axis`` has this length in the whole array, and the block begins at ``first_row`` of it.
    """
    place = jnp.zeros((1, *block), jnp.uint32)
    stride = 1
    for k in reversed(range(len(block))):
        along = jax.lax.broadcasted_iota(jnp.uint32, (1, *block), k + 1)
        if k == axis:
            along = along + jnp.asarray(first_row).astype(jnp.uint32)
        place = place + along * np.uint32(stride % 2**32)
        stride *= length if k == axis else block[k]
    return place
