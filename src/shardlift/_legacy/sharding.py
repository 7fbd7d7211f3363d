"""``PmapSharding``, its specs, and the arrays that had it; ``PositionalSharding``.

A pmap's outputs have a ``NamedSharding`` now: one row per device, along the one axis of a mesh.
``isinstance(x.sharding, PmapSharding)`` recognises it, and constructing a ``PmapSharding`` returns
one, so that ``jax.device_put`` and ``jax.jit`` accept it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardlift.arrays.reads import is_concrete

# ---- the spec of each axis of an array, and of the devices


@dataclass(frozen=True)
class NoSharding:
    """The axis is whole on every device."""


@dataclass(frozen=True)
class Chunked:
    """The axis is cut into chunks: into so many, or by several axes of the devices."""

    chunks: Any

    def __post_init__(self) -> None:
        counts = (self.chunks,) if isinstance(self.chunks, int) else tuple(self.chunks)
        object.__setattr__(self, "chunks", counts)


@dataclass(frozen=True)
class Unstacked:
    """The axis is cut into rows, one per device."""

    size: int


@dataclass(frozen=True)
class ShardedAxis:
    """An axis of the devices, along the n-th cut."""

    axis: int


@dataclass(frozen=True)
class Replicated:
    """An axis of the devices along which the data is the same."""

    replicas: int


@dataclass(frozen=True)
class ShardingSpec:
    """How an array is cut, and the axis of the devices for each cut."""

    sharding: Sequence[Any]
    mesh_mapping: Sequence[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sharding", tuple(self.sharding))
        object.__setattr__(self, "mesh_mapping", tuple(self.mesh_mapping))


def _parts(entry: Any) -> tuple[int, ...]:
    """The number of parts of each cut of an axis."""
    return (entry.size,) if isinstance(entry, Unstacked) else getattr(entry, "chunks", ())


def _named_sharding(devices: np.ndarray[Any, Any], spec: ShardingSpec) -> NamedSharding:
    """The ``NamedSharding`` with the same layout as ``spec``."""
    cuts = [count for entry in spec.sharding for count in _parts(entry)]
    sizes = [a.replicas if isinstance(a, Replicated) else cuts[a.axis] for a in spec.mesh_mapping]
    axes = [f"devices{k}" if len(sizes) > 1 else "devices" for k in range(len(sizes))]
    pairs = zip(spec.mesh_mapping, axes, strict=True)
    of_cut = {entry.axis: name for entry, name in pairs if isinstance(entry, ShardedAxis)}
    entries: list[Any] = []
    done = 0
    for entry in spec.sharding:
        names = tuple(of_cut[done + k] for k in range(len(_parts(entry))))
        entries.append(names if len(names) > 1 else names[0] if names else None)
        done += len(names)
    mesh = Mesh(np.asarray(devices).reshape(sizes), axes)
    return NamedSharding(mesh, PartitionSpec(*entries))


# ---- the sharding


class _LooksLikePmap(type):
    """Recognises shardings with the layout of a pmap's outputs."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if not isinstance(instance, NamedSharding):
            return False
        cut = [entry for entry in instance.spec if entry is not None]
        axes = instance.mesh.axis_names
        # All axes of the mesh, each once: one for a pmap, several for nested ones.
        return bool(cut) and [n for e in cut for n in _names(e)] == list(axes[: len(cut)])

    def __call__(cls, devices: Any, sharding_spec: ShardingSpec) -> NamedSharding:
        return _named_sharding(np.asarray(devices), sharding_spec)


def _names(entry: Any) -> tuple[Any, ...]:
    return entry if isinstance(entry, tuple) else (entry,)


class PmapSharding(metaclass=_LooksLikePmap):
    """The sharding of the outputs of a pmap until 0.8; removed in 0.10.

    >>> import jax
    >>> sharding = PmapSharding.default((jax.device_count(), 3))
    >>> isinstance(sharding, PmapSharding), type(sharding).__name__
    (True, 'NamedSharding')
    """

    @classmethod
    def default(
        cls,
        shape: Sequence[int],
        sharded_dim: int | None = 0,
        devices: Sequence[jax.Device] | None = None,
    ) -> NamedSharding:
        """One row of axis ``sharded_dim`` per device; by default on the first local devices."""
        if sharded_dim is None:
            if devices is None:
                raise ValueError("One of sharded_dim or devices must be set.")
            mesh = Mesh(np.asarray(devices), ("devices",))
            return NamedSharding(mesh, PartitionSpec())
        rows = shape[sharded_dim]
        given = list(devices) if devices is not None else jax.local_devices()[:rows]
        if len(given) < rows:
            raise ValueError(f"{rows} rows need {rows} devices, but there are {len(given)}")
        mesh = Mesh(np.asarray(given[:rows]), ("devices",))
        return NamedSharding(mesh, PartitionSpec(*[None] * sharded_dim, "devices"))


def device_grid(sharding: NamedSharding) -> np.ndarray[Any, Any]:
    """``PmapSharding.devices``: the devices, as a NumPy array."""
    return sharding.mesh.devices


def sharding_spec(sharding: NamedSharding) -> ShardingSpec:
    """``PmapSharding.sharding_spec``; axes after the last cut are unknown, and left out."""
    sizes = sharding.mesh.shape
    entries: list[Any] = []
    at: dict[Any, int] = {}
    for entry in sharding.spec:
        names = () if entry is None else _names(entry)
        at.update({name: len(at) + k for k, name in enumerate(names)})
        entries.append(Chunked([sizes[n] for n in names]) if names else NoSharding())
    mapping = [
        ShardedAxis(at[name]) if name in at else Replicated(sizes[name])
        for name in sharding.mesh.axis_names
    ]
    return ShardingSpec(entries, mapping)


# ---- the arrays


class _IsSharded(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return is_concrete(instance) and isinstance(instance.sharding, PmapSharding)


class ShardedDeviceArray(metaclass=_IsSharded):
    """The type that the outputs of a pmap had until 0.4."""


def make_sharded_device_array(
    aval: Any, sharding_spec: ShardingSpec, device_buffers: Sequence[jax.Array], *_: Any
) -> jax.Array:
    """One array made of buffers that are already on the devices."""
    devices = np.array([next(iter(buffer.devices())) for buffer in device_buffers])
    sharding = _named_sharding(devices, sharding_spec)
    shape = sharding.shard_shape(aval.shape)
    blocks = [b if b.shape == shape else jax.numpy.reshape(b, shape) for b in device_buffers]
    return jax.make_array_from_single_device_arrays(aval.shape, sharding, blocks)


class PositionalSharding(NamedSharding):
    """Devices in the shape of the cuts of an array, and one axis of copies (until 0.7).

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
