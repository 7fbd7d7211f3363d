"""A table of the placement of the leaves of a tree."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from shardlift.arrays.paths import leaf_paths, type_of
from shardlift.arrays.replicas import host_bits

_HEADER = ("leaf", "type", "spec", "bytes/device", "copies", "replicas")


def show(tree: Any) -> str:
    """One line per leaf: path, dtype and shape, spec, bytes per device, copies, equal replicas.

    ``copies`` is the number of devices that hold the same part. ``replicas`` compares, bit by
    bit, these copies, or else the rows of a leading axis that has one row on each device (as in the
    outputs of a pmap): ``equal``, or the devices that differ from the first. ``-`` where there is
    nothing to compare. In a job of many processes a line describes the devices of this process.
    The values are fetched to the host: use it for inspection, not in the inner loop.

    >>> import jax, numpy as np
    >>> from shardlift import replicate, show
    >>> print(show({"w": replicate(np.zeros((2, 2), "float32"), jax.local_devices()[:1])}))
    leaf   type            spec          bytes/device  copies  replicas
    ['w']  float32[1,2,2]  P('devices')            16       1  -
    """
    rows = [_HEADER, *(_row(path, leaf) for path, leaf in leaf_paths(tree))]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        for n in (3, 4):  # numbers
            cells[n] = row[n].rjust(widths[n])
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _row(path: str, leaf: Any) -> tuple[str, ...]:
    if not isinstance(leaf, jax.Array):
        kind = type_of(leaf) if isinstance(leaf, np.ndarray) else type(leaf).__name__
        return (path, kind, "host", "-", "-", "-")
    if isinstance(leaf, jax.core.Tracer):
        return (path, type_of(leaf), "traced", "-", "-", "-")
    held = str(leaf.addressable_data(0).nbytes)
    return (path, type_of(leaf), _spec(leaf), held, str(_copies(leaf)), _replicas(leaf))


def _spec(leaf: jax.Array) -> str:
    if isinstance(leaf.sharding, NamedSharding):
        return f"P({', '.join(map(repr, leaf.sharding.spec))})"
    devices = sorted(map(device_name, leaf.sharding.device_set))
    return f"on {devices[0]}" if len(devices) == 1 else type(leaf.sharding).__name__


def _copies(leaf: jax.Array) -> int:
    """The number of devices, of all processes, that hold the same part as the first one."""
    parts = list(leaf.sharding.devices_indices_map(leaf.shape).values())
    return parts.count(parts[0])


def _replicas(leaf: jax.Array) -> str:
    row = (1, *leaf.shape[1:])
    if _copies(leaf) > 1:
        parts = [shard.index for shard in leaf.addressable_shards]
    elif (
        leaf.ndim
        and len(leaf.addressable_shards) > 1
        and all(shard.data.shape == row for shard in leaf.addressable_shards)
    ):
        parts = [shard.index[1:] for shard in leaf.addressable_shards]
    else:
        return "-"
    first: dict[str, bytes] = {}
    bad = []
    for part, shard in zip(map(str, parts), leaf.addressable_shards, strict=True):
        bits = host_bits(shard.data).tobytes()
        if first.setdefault(part, bits) != bits:
            bad.append(device_name(shard.device))
    return f"differ on {', '.join(bad)}" if bad else "equal"


def device_name(device: jax.Device) -> str:
    """``cpu:3``."""
    return f"{device.platform}:{device.id}"
