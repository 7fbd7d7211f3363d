"""Where arrays are, in the words of the capture."""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import NamedSharding, Sharding

from shardlift.capture.schema import HOST


def placement_of(leaf: Any) -> str:
    """Where a leaf of the arguments is."""
    return placement_by(leaf.sharding) if isinstance(leaf, jax.Array) else HOST


def placement_by(sharding: Sharding) -> str:
    """Where an array with this sharding is: ``cpu:3``, ``P('i') on cpu:0-7``."""
    all_devices: set[jax.Device] = sharding.device_set
    ids = sorted(device.id for device in all_devices)
    is_range = len(ids) > 1 and ids == [*range(ids[0], ids[-1] + 1)]
    numbers = f"{ids[0]}-{ids[-1]}" if is_range else ",".join(map(str, ids))
    devices = f"{next(iter(all_devices)).platform}:{numbers}"
    if len(ids) == 1:
        return devices
    if sharding.is_fully_replicated:
        return f"whole on each of {devices}"
    if isinstance(sharding, NamedSharding):
        names = (repr(str(name)) if name else "None" for name in sharding.spec)
        return f"P({', '.join(names)}) on {devices}"
    return f"{type(sharding).__name__} on {devices}"
