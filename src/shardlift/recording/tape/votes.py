"""Decisions that all processes of a call must take alike.

A call over the devices of several processes can be run again only by all of them, but whether that
is worth while, or possible, each can only say for itself.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardlift.recording.mapped_calls import MappedCall

Devices = tuple[jax.Device, ...]


def devices_of(call: MappedCall, out: Any) -> Devices:
    """The devices of all processes that a call was run on, in the same order in each process."""
    arrays = [x for x in (*call.leaves, *jax.tree.leaves(out)) if isinstance(x, jax.Array)]
    devices = {*call.devices(), *(one for x in arrays for one in x.sharding.device_set)}
    return tuple(sorted(devices, key=lambda one: (one.process_index, one.id)))


def any_process(vote: bool, devices: Devices) -> bool:
    """Whether one of the processes of these devices says yes; all of them must ask."""
    return any(_votes(vote, devices))


def every_process(vote: bool, devices: Devices) -> bool:
    """Whether all processes of these devices say yes; all of them must ask."""
    return all(_votes(vote, devices))


def _votes(vote: bool, devices: Devices) -> Iterable[bool]:
    me = jax.process_index()
    mine = sum(device.process_index == me for device in devices)
    if mine == len(devices):
        return [vote]
    rows, gather = _gather(devices)
    own = np.full(mine, vote)
    votes = gather(jax.make_array_from_process_local_data(rows, own, (len(devices),)))
    return [bool(one) for one in np.asarray(votes.addressable_data(0))]


@functools.lru_cache(maxsize=64)
def _gather(devices: Devices) -> tuple[NamedSharding, Any]:
    mesh = Mesh(np.array(devices), ("all",))
    rows, whole = (NamedSharding(mesh, PartitionSpec(*axes)) for axes in (("all",), ()))
    return rows, jax.jit(lambda x: x, out_shardings=whole)
