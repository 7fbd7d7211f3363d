"""Conversion between the two views of an array in a job of many processes: host-local and global.

In both directions the buffers stay where they are, and get another sharding. Only a leaf that is
not yet on the local devices as the spec says is moved, and only inside its process.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def stitch(tree: Any, mesh: Mesh, spec: Any) -> Any:
    """Make global arrays of the parts that the processes hold.

    Args:
        tree: this process' part: NumPy arrays, or arrays on its own devices. A leaf that is a
            global array over ``mesh`` already is returned with that spec.
        mesh: the devices of all processes.
        spec: a ``PartitionSpec``, or a tree prefix of them, of the *global* array. An axis of
            the mesh that spans processes concatenates their parts; along the others all
            processes hold the same.

    Returns:
        The tree, of global arrays. In a job of one process, the leaves placed on ``mesh``.

    No bytes move for a leaf that is already on the local devices as ``spec`` says, whatever the
    names of its mesh axes: an output of a pmap, for example.

    >>> import jax, numpy as np
    >>> from jax.sharding import Mesh, PartitionSpec as P
    >>> from shardlift import stitch
    >>> mesh = Mesh(np.array(jax.devices()), ("data",))
    >>> local = np.zeros((2 * jax.local_device_count(), 5))
    >>> stitch(local, mesh, P("data")).shape == (2 * jax.device_count(), 5)
    True
    """
    structure: Any = jax.tree.structure(tree)
    leaves = [_stitch(x, path, mesh, s) for path, x, s in _with_specs(tree, spec)]
    return structure.unflatten(leaves)


def local_view(tree: Any) -> Any:
    """Take from global arrays the part that this process holds, on its own devices.

    The inverse of ``stitch``; no bytes move. Leaves that this process holds whole, NumPy arrays
    and scalars among them, are returned as they are.

    >>> import jax, numpy as np
    >>> from jax.sharding import Mesh, PartitionSpec as P
    >>> from shardlift import local_view, stitch
    >>> mesh = Mesh(np.array(jax.devices()), ("data",))
    >>> local = np.arange(jax.local_device_count())
    >>> bool((np.asarray(local_view(stitch(local, mesh, P("data")))) == local).all())
    True
    """
    return jax.tree_util.tree_map_with_path(_local_view, tree)


def _with_specs(tree: Any, spec: Any) -> list[tuple[str, Any, Any]]:
    """Every leaf with its path and its spec."""
    out: list[tuple[str, Any, Any]] = []

    def add(at: Any, leaf_spec: Any, subtree: Any) -> None:
        for below, leaf in jax.tree_util.tree_flatten_with_path(subtree)[0]:
            out.append((jax.tree_util.keystr((*at, *below)) or "<leaf>", leaf, leaf_spec or _P()))

    jax.tree_util.tree_map_with_path(
        add, spec, tree, is_leaf=lambda x: x is None or isinstance(x, PartitionSpec)
    )
    return out


_P: Any = PartitionSpec


def _stitch(leaf: Any, path: str, mesh: Mesh, spec: Any) -> Any:
    sharding = NamedSharding(mesh, spec)
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
        return jax.device_put(leaf, sharding)
    shape, local = np.shape(leaf), local_mesh(mesh)
    if len(spec) > len(shape):
        raise ValueError(f"the leaf {path} has shape {shape}, too few dimensions for {spec}.")
    for n, (size, parts) in enumerate(zip(shape, _splits(local, spec, len(shape)), strict=True)):
        if size % parts:
            raise ValueError(
                f"dimension {n} of the leaf {path} has {size} rows on this process, but {spec} "
                f"splits it over {parts} local devices: pad it to a multiple of {parts}."
            )
    placed = jax.device_put(leaf, NamedSharding(local, spec))
    return _rewrap(placed, _whole_shape(placed, mesh, spec), sharding)


def _local_view(path: Any, leaf: Any) -> Any:
    if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable:
        return leaf
    if not isinstance(leaf.sharding, NamedSharding):
        raise ValueError(
            f"the leaf {jax.tree_util.keystr(path) or '<leaf>'} is laid out by "
            f"{leaf.sharding}, not by a NamedSharding: put it on a mesh with jax.device_put first."
        )
    mesh, spec = leaf.sharding.mesh, leaf.sharding.spec
    assert isinstance(mesh, Mesh)
    local = local_mesh(mesh)
    return _rewrap(leaf, _whole_shape(leaf, local, spec), NamedSharding(local, spec))


def _rewrap(x: jax.Array, shape: tuple[int, ...], sharding: NamedSharding) -> jax.Array:
    if x.shape == shape and x.sharding == sharding:
        return x
    blocks = [s.data for s in x.addressable_shards]
    return jax.make_array_from_single_device_arrays(shape, sharding, blocks)


@lru_cache(maxsize=256)
def local_mesh(mesh: Mesh) -> Mesh:
    """The part of ``mesh`` whose devices belong to this process, with the same axes."""
    mine = NamedSharding(mesh, _P()).addressable_devices
    if len(mine) == mesh.size:
        return mesh
    is_mine = np.vectorize(lambda device: device in mine, otypes=[bool])(mesh.devices)
    block = mesh.devices[np.ix_(*(np.unique(where) for where in np.nonzero(is_mine)))]
    if not mine or block.size != len(mine):
        raise ValueError(
            f"the devices of process {jax.process_index()} do not form a block of {mesh}, so there "
            "is no local view. Order the mesh by process, like jax.devices()."
        )
    return Mesh(block, mesh.axis_names, axis_types=mesh.axis_types)


def _whole_shape(array: jax.Array, mesh: Mesh, spec: Any) -> tuple[int, ...]:
    """The shape of an array on ``mesh`` whose shards are like the shards of ``array``."""
    shard = array.sharding.shard_shape(array.shape)
    return tuple(n * k for n, k in zip(shard, _splits(mesh, spec, len(shard)), strict=True))


def _splits(mesh: Mesh, spec: Any, ndim: int) -> list[int]:
    """Over how many devices each dimension is split."""
    entries = [e if isinstance(e, tuple) else (e,) for e in spec if e is not _P.UNCONSTRAINED]
    counts = [math.prod(mesh.shape[name] for name in e if name is not None) for e in entries]
    return counts + [1] * (ndim - len(counts))
