"""Conversion between the arrays of one process and global arrays.

In a job of many processes a pmapped function takes and returns the rows of its own process,
while its program runs over the devices of all. Both views of an array share their buffers.
Each output remembers the global array that it is a view of: state that is fed back is not
converted again. `local_program` avoids the conversions where it can.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardlift import _compat
from shardlift.arrays.resharding import is_key
from shardlift.mapping.axes import Axis, leaf_axes, shape_of, spec_of
from shardlift.mapping.pmap_options import PmapOptions

MEMORY = "_shardlift_global"  # the attribute by which a local view remembers its global array


class Bridge:
    """Converts the arguments and outputs of one plan in this process."""

    def __init__(self, mesh: Mesh, options: PmapOptions) -> None:
        self.mesh = mesh
        self.here = _rows_here(mesh)
        self.label: str = mesh.axis_names[0]
        self.rows_here = self.here.shape[self.label]
        self.rows = mesh.shape[self.label]
        self._options = options
        self._shardings: dict[Axis, NamedSharding] = {}

    # ---- in

    def globals_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """The arguments that are not static as global arrays."""
        leaves, tree = jax.tree.flatten((args, kwargs))
        axes = leaf_axes(self._options, args, kwargs)
        return jax.tree.unflatten(tree, map(self.to_global, leaves, axes))

    def sharding(self, axis: Axis) -> NamedSharding:
        """The sharding of a global array with its rows along ``axis``."""
        if axis not in self._shardings:
            self._shardings[axis] = NamedSharding(self.mesh, spec_of(axis, self.label))
        return self._shardings[axis]

    def global_shape(self, shape: Sequence[int], axis: Axis) -> tuple[int, ...]:
        """The shape of the array of all rows, from the shape of this process's rows."""
        if axis is None:
            return tuple(shape)
        if shape[axis] != self.rows_here:
            raise ValueError(f"axis {axis} has {shape[axis]} rows, this process {self.rows_here}")
        return (*shape[:axis], self.rows, *shape[axis + 1 :])

    def to_global(self, leaf: Any, axis: Axis) -> Any:
        """One argument of this process as a part of the global array."""
        wanted = self.sharding(axis)
        remembered = getattr(leaf, MEMORY, None)
        if remembered is not None and remembered.sharding == wanted:
            return remembered
        if isinstance(leaf, jax.Array):
            if not leaf.is_fully_addressable:  # global already
                return leaf
            if is_key(leaf):
                data = self.to_global(jax.random.key_data(leaf), axis)
                return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
        elif getattr(leaf, "dtype", None) == jax.dtypes.float0:
            leaf = np.zeros(leaf.shape, bool)
        shape = self.global_shape(shape_of(leaf), axis)
        local = NamedSharding(self.here, wanted.spec)
        placed = jax.device_put(leaf, local)
        whole = _compat.rewrap(placed, shape, wanted)
        if placed is leaf:  # the same buffers: worth remembering
            setattr(leaf, MEMORY, whole)
        return whole

    # ---- out

    def to_local(self, leaf: Any) -> Any:
        """The rows of this process, of one output."""
        if leaf.is_fully_addressable:
            return leaf
        if is_key(leaf):
            data = self.to_local(jax.random.key_data(leaf))
            return jax.random.wrap_key_data(data, impl=jax.random.key_impl(leaf))
        shape = self.local_shape(leaf.shape, leaf.sharding.spec)
        view = _compat.rewrap(leaf, shape, self.local_sharding(leaf))
        setattr(view, MEMORY, leaf)
        return view

    def local_sharding(self, leaf: jax.Array) -> NamedSharding:
        """The sharding of the rows of this process, of a global array."""
        assert isinstance(leaf.sharding, NamedSharding)
        return NamedSharding(self.here, leaf.sharding.spec)

    def local_shape(self, shape: Sequence[int], spec: PartitionSpec) -> tuple[int, ...]:
        """The shape of the rows of this process, from the shape of all rows."""
        entries = [*spec, *[None] * (len(shape) - len(spec))]
        names = [entry if isinstance(entry, tuple) else (entry,) for entry in entries]
        return tuple(
            n // self.rows * self.rows_here if self.label in name else n
            for n, name in zip(shape, names, strict=True)
        )

    # ---- ahead of time

    def abstract(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """Shapes and dtypes of the global arguments; nothing is placed."""
        leaves, tree = jax.tree.flatten((args, kwargs))
        for k, axis in enumerate(leaf_axes(self._options, args, kwargs)):
            leaf, kind = leaves[k], jax.typeof(leaves[k])
            if not isinstance(leaf, jax.Array) or leaf.is_fully_addressable:
                dtype = getattr(leaf, "dtype", kind.dtype)
                weak = axis is None and getattr(kind, "weak_type", False)
                shape = self.global_shape(shape_of(leaf), axis)
                leaves[k] = jax.ShapeDtypeStruct(shape, dtype, weak_type=weak)
        return jax.tree.unflatten(tree, leaves)


def _rows_here(mesh: Mesh) -> Mesh:
    """The rows of the mesh whose devices belong to this process."""
    me = jax.process_index()
    rows = mesh.devices.reshape(mesh.devices.shape[0], -1)
    mine = [k for k, row in enumerate(rows) if all(d.process_index == me for d in row)]
    if not mine:
        raise ValueError(
            f"process {me} has no row of this pmap: none of its devices is among "
            f"{', '.join(map(str, mesh.devices.flat))}. Call it only in processes that take part, "
            "with the same devices= in all of them."
        )
    return Mesh(mesh.devices[np.array(mine)], mesh.axis_names)
