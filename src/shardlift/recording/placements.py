"""Where arrays are, in the words of the capture."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec, Sharding

from shardlift.capture.schema import HOST


def placement_of(leaf: Any) -> str:
    """Where a leaf of the arguments is."""
    return placement_by(leaf.sharding) if isinstance(leaf, jax.Array) else HOST


def placement_by(sharding: Sharding) -> str:
    """Where an array with this sharding is: ``cpu:3``, ``P('i') on cpu:0-7``."""
    devices = _devices_text(sharding.device_set)
    if len(sharding.device_set) == 1:
        return devices
    if sharding.is_fully_replicated:
        return f"whole on each of {devices}"
    if isinstance(sharding, NamedSharding):
        return f"{_spec_text(sharding.spec)} on {devices}"
    return f"{type(sharding).__name__} on {devices}"


def _spec_text(spec: PartitionSpec) -> str:
    """``P(None, 'i')``."""
    return f"P({', '.join(repr(str(name)) if name else 'None' for name in spec)})"


def _devices_text(devices: Iterable[jax.Device]) -> str:
    """``cpu:0-7``, ``gpu:0,2``."""
    by_platform: dict[str, list[int]] = {}
    for device in devices:
        by_platform.setdefault(device.platform, []).append(device.id)
    return " ".join(f"{name}:{_ranges(sorted(ids))}" for name, ids in by_platform.items())


def _ranges(ids: list[int]) -> str:
    runs: list[list[int]] = []
    for number in ids:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs)
