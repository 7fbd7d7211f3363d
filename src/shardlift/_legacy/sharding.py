"""``PmapSharding``, and the arrays that had it.

A pmap's outputs have a ``NamedSharding`` now: one row per device, along the one axis of a mesh.
``isinstance(x.sharding, PmapSharding)`` recognises it, and ``PmapSharding.default`` returns one, so
that ``jax.device_put`` and ``jax.jit`` accept it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardlift.arrays.reads import is_concrete


class _LooksLikePmap(type):
    """Recognises shardings with the layout of a pmap's outputs."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if not isinstance(instance, NamedSharding):
            return False
        cut = [entry for entry in instance.spec if entry is not None]
        axes = instance.mesh.axis_names
        # All axes of the mesh, each once: one for a pmap, several for nested ones.
        names = [n for entry in cut for n in (entry if isinstance(entry, tuple) else (entry,))]
        return bool(cut) and names == list(axes[: len(cut)])


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


class _IsSharded(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return is_concrete(instance) and isinstance(instance.sharding, PmapSharding)


class ShardedDeviceArray(metaclass=_IsSharded):
    """The type that the outputs of a pmap had until 0.4."""
