"""``PositionalSharding``, which JAX had until 0.7: devices in the shape of the cuts of an array."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

__all__ = ["PositionalSharding"]


class PositionalSharding(NamedSharding):
    """A ``NamedSharding`` with one axis of the mesh for each axis of the array, and one of copies.

    >>> import jax
    >>> PositionalSharding(jax.devices()).replicate().shape
    (1,)
    """

    def __init__(self, devices: Any, *, memory_kind: str | None = None) -> None:
        """``devices``: an array of devices, one a block of the array."""
        grid = np.asarray(devices)
        self._lay_out(grid.reshape(*grid.shape, 1), memory_kind)

    def _lay_out(self, grid: np.ndarray[Any, Any], memory_kind: str | None) -> None:
        axes = [f"axis{k}" for k in range(grid.ndim - 1)]
        cuts = [axis if size > 1 else None for axis, size in zip(axes, grid.shape, strict=False)]
        mesh = Mesh(grid, (*axes, "copies"))
        super().__init__(mesh, PartitionSpec(*cuts), memory_kind=memory_kind)
        self._grid = grid

    @classmethod
    def _of(cls, grid: np.ndarray[Any, Any], memory_kind: str | None) -> PositionalSharding:
        sharding = cls.__new__(cls)
        sharding._lay_out(grid, memory_kind)
        return sharding

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of blocks along each axis."""
        return self._grid.shape[:-1]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def T(self) -> PositionalSharding:  # noqa: N802
        """With the axes in reverse order."""
        return self.transpose()

    def transpose(self, *axes: int) -> PositionalSharding:
        """With the axes in another order."""
        order = axes or tuple(range(self.ndim))[::-1]
        return self._of(self._grid.transpose(*order, self.ndim), self.memory_kind)

    def reshape(self, *shape: Any) -> PositionalSharding:
        """With the blocks along other axes."""
        sizes: Any = shape[0] if len(shape) == 1 and np.iterable(shape[0]) else shape
        return self._of(self._grid.reshape(*sizes, self._grid.shape[-1]), self.memory_kind)

    def replicate(self, axis: int | None = None, keepdims: bool = True) -> PositionalSharding:
        """With whole copies instead of blocks along an axis, or along all."""
        kept = () if axis is None else [k for k in range(self.ndim) if k != axis % self.ndim]
        gone = [k for k in range(self.ndim) if k not in kept]
        copies = self._grid.transpose(*kept, *gone, self.ndim)
        sizes = [
            self.shape[k] if k in kept else 1 for k in range(self.ndim) if keepdims or k in kept
        ]
        return self._of(copies.reshape(*sizes, -1), self.memory_kind)
