"""``PmapSharding``, its specs, and the arrays that had it.

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
        if sharded_dim is None and devices is None:
            raise ValueError("One of sharded_dim or devices must be set.")
        given = list(devices) if devices is not None else jax.local_devices()
        rows = len(given) if sharded_dim is None else shape[sharded_dim]
        if len(given) < rows:
            raise ValueError(f"{rows} rows need {rows} devices, but there are {len(given)}")
        cut = () if sharded_dim is None else (*[None] * sharded_dim, "devices")
        return NamedSharding(Mesh(np.asarray(given[:rows]), ("devices",)), PartitionSpec(*cut))


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
