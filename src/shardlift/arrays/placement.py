"""Placement of one value, or of one value per device, along a leading device axis.

``jax.device_put_sharded`` and ``jax.device_put_replicated`` were removed in JAX 0.10. These are
the same functions on public API: one ``jax.device_put`` per device, then one array made of these
buffers. Nothing is stacked on the way, so the peak of memory is the result. As with every
``jax.device_put``: do not write to a NumPy array after placing it. On the CPU the result may share
its memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardlift.arrays.paths import leaf_paths

AXIS = "devices"  # the default name of the mesh axis


def device_put_sharded(
    shards: Sequence[Any], devices: Sequence[jax.Device], axis_name: Any = AXIS
) -> Any:
    """Put ``shards[i]`` on ``devices[i]`` and return them as one array per leaf.

    Args:
        shards: one array, scalar, typed key or tree of those for each device. All have the same
            structure, and each leaf the same shape and dtype in every shard.
        devices: the device of each shard.
        axis_name: the name of the axis of the mesh.

    Returns:
        The tree of one shard, each leaf with a new leading axis of ``len(devices)`` that is
        spread over ``devices``: a pmap over these devices takes it without moving it.

    A shard that is already on its device is not transferred.

    >>> import jax, numpy as np
    >>> from shardlift import device_put_sharded
    >>> batches = [np.full((2, 3), i) for i, _ in enumerate(jax.local_devices())]
    >>> x = device_put_sharded(batches, jax.local_devices())
    >>> x.shape == (jax.local_device_count(), 2, 3)
    True
    """
    if not isinstance(shards, Sequence):
        raise TypeError(f"device_put_sharded `shards` input must be a sequence; got {type(shards)}")
    if len(shards) != len(devices):
        raise ValueError(f"len(shards) = {len(shards)} must equal len(devices) = {len(devices)}.")
    if not shards:
        raise TypeError("device_put_sharded needs at least one shard and one device; got none.")
    tree: Any = jax.tree.structure(shards[0])
    rows = [tree.flatten_up_to(shard) for shard in shards]
    weak = _check_alike(rows, tree)
    blocks = [_put_row(row, weak, device) for row, device in zip(rows, devices, strict=True)]
    return tree.unflatten(_assemble(blocks, weak, device_axis(tuple(devices), axis_name)))


def device_put_replicated(x: Any, devices: Sequence[jax.Device], axis_name: Any = AXIS) -> Any:
    """Put a copy of ``x`` on every device and return the copies as one array per leaf.

    Args:
        x: an array, scalar, typed key, or a tree of those.
        devices: the devices of the copies; a sequence that is not empty.
        axis_name: the name of the axis of the mesh.

    Returns:
        The tree of ``x``, each leaf with a new leading axis of ``len(devices)`` that is spread
        over ``devices``: a pmap over these devices takes it without moving it.

    >>> import jax
    >>> from shardlift import device_put_replicated
    >>> params = device_put_replicated({"w": jax.numpy.ones((3, 4))}, jax.local_devices())
    >>> params["w"].shape == (jax.local_device_count(), 3, 4)
    True
    """
    if not isinstance(devices, Sequence) or not devices:
        raise ValueError(
            "`devices` argument to `device_put_replicated must be a non-empty sequence."
        )
    tree: Any
    leaves, tree = jax.tree.flatten(x)
    weak = [_aval(leaf)[2] for leaf in leaves]
    row = [leaf if w else _add_axis(leaf) for leaf, w in zip(leaves, weak, strict=True)]
    # From the host once only: copies between devices run in parallel, those from the host one
    # after the other (CPU, 0.10.2 to 0.12.0).
    first = jax.device_put(row, devices[0])
    blocks = [first, *[jax.device_put(first, device) for device in devices[1:]]]
    return tree.unflatten(_assemble(blocks, weak, device_axis(tuple(devices), axis_name)))


@lru_cache(maxsize=256)
def device_axis(devices: tuple[jax.Device, ...], axis_name: Any) -> NamedSharding:
    """The sharding of arrays whose leading axis has one row on each of ``devices``."""
    if len(set(devices)) != len(devices):
        raise ValueError(
            "a device holds one row of the device axis, but a device was given more than once: "
            f"{list(devices)}. Give each device once."
        )
    return NamedSharding(Mesh(np.array(devices), (axis_name,)), PartitionSpec(axis_name))


def _aval(leaf: Any) -> tuple[tuple[int, ...], Any, bool]:
    if isinstance(leaf, jax.core.Tracer):
        raise TypeError(
            "device_put_sharded and device_put_replicated place concrete values, but got the "
            f"traced value {leaf}: call them outside jit, vmap and grad."
        )
    aval = jax.typeof(leaf)
    return aval.shape, aval.dtype, aval.weak_type


def _check_alike(rows: list[list[Any]], tree: Any) -> list[bool]:
    """Refuse leaves that differ between shards; return which leaves are weakly typed."""
    first = [_aval(leaf) for leaf in rows[0]]
    for before, row in itertools.pairwise(rows):
        for n, (leaf, expected) in enumerate(zip(row, first, strict=True)):
            if _aval(leaf) != expected:
                path = leaf_paths(tree.unflatten(range(tree.num_leaves)))[n][0]
                raise ValueError(
                    "the shards passed to device_put_sharded must have consistent shape and "
                    f"dtype, but got {jax.typeof(before[n])} and {jax.typeof(leaf)}."
                    + (f" They are the leaf {path}." if len(first) > 1 else "")
                )
    return [weak for _, _, weak in first]


def _put_row(row: list[Any], weak: list[bool], device: jax.Device) -> list[Any]:
    """The leaves of one shard on its device, each with its leading axis of 1."""
    hosted = [_is_numpy(leaf) for leaf in row]
    row = [_add_axis(leaf) if host else leaf for leaf, host in zip(row, hosted, strict=True)]
    put = jax.device_put(row, device)
    for n, (new, leaf) in enumerate(zip(put, row, strict=True)):
        if not hosted[n] and not weak[n]:
            # If that made a copy, nothing else uses the copy, and its buffer is donated.
            moved = isinstance(leaf, jax.Array) and leaf.devices() != new.devices()
            put[n] = _expand_donated(new) if moved and new.size else _expand(new)
    return put


def _assemble(
    blocks: list[list[Any]], weak: list[bool], sharding: NamedSharding
) -> list[jax.Array]:
    arrays = []
    for column, is_weak in zip(zip(*blocks, strict=True), weak, strict=True):
        if is_weak:
            # An array made of single-device arrays is never weakly typed (0.12.0), but a moved one
            # keeps it. Weak leaves are mostly Python scalars, so stacking them costs nothing.
            stacked = _stack(jax.device_put(list(column), sharding.mesh.devices.flat[0]))
            arrays.append(jax.device_put(stacked, sharding))
        else:
            shape = (len(column), *column[0].shape[1:])
            arrays.append(jax.make_array_from_single_device_arrays(shape, sharding, list(column)))
    return arrays


def _is_numpy(leaf: Any) -> bool:
    return isinstance(leaf, (np.ndarray, np.generic, bool))


def _add_axis(leaf: Any) -> Any:
    """``leaf`` with a leading axis of 1: a view if it is on the host, else a program."""
    return np.asarray(leaf)[None] if _is_numpy(leaf) else _expand(leaf)


@jax.jit
def _expand(x: jax.Array) -> jax.Array:
    return lax.expand_dims(x, (0,))


_expand_donated = jax.jit(_expand, donate_argnums=0)


@jax.jit
def _stack(xs: list[jax.Array]) -> jax.Array:
    return lax.concatenate([lax.expand_dims(x, (0,)) for x in xs], 0)
