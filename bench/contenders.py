"""The three ways to run one function a device that are compared, and states for them to run on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from bench.harness import AGAIN, JAX, LIMIT, OURS

Fun = Callable[..., Any]
AXIS = "i"


def rows_of(devices: int) -> NamedSharding:
    """One row on each of the first devices."""
    return NamedSharding(Mesh(np.array(jax.devices()[:devices]), (AXIS,)), P(AXIS))


def bare(step: Fun, devices: int) -> Fun:
    """What one would write by hand: ``shard_map``, with the device axis taken off and put back."""

    def block(*args: Any) -> Any:
        out = step(*jax.tree.map(lambda x: lax.squeeze(x, [0]), args))
        return jax.tree.map(lambda x: lax.expand_dims(x, [0]), out)

    mesh = rows_of(devices).mesh
    return jax.shard_map(block, mesh=mesh, in_specs=P(AXIS), out_specs=P(AXIS), check_vma=False)


def limit(step: Fun, devices: int, donate: tuple[int, ...] = ()) -> Fun:
    """Bare ``jit(shard_map)`` with its shardings said: nothing built on public JAX is faster."""
    rows = rows_of(devices)
    mapped = bare(step, devices)
    return jax.jit(mapped, in_shardings=rows, out_shardings=rows, donate_argnums=donate)


def lifted(step: Fun, donate: tuple[int, ...] = ()) -> Fun:
    """Ours. Imported here, so that the time to first call includes it."""
    import shardlift

    return shardlift.pmap(step, axis_name=AXIS, donate_argnums=donate)


def make(name: str, step: Fun, devices: int, donate: tuple[int, ...] = ()) -> Fun:
    """The contender of this name."""
    if name == OURS:
        return lifted(step, donate)
    if name == JAX:
        return jax.pmap(step, axis_name=AXIS, donate_argnums=donate)
    assert name in (LIMIT, AGAIN)
    return limit(step, devices, donate)


def state(leaves: int, devices: int) -> Any:
    """An array, or layers of weights and biases; NumPy, one row a device."""
    if leaves == 1:
        return np.ones((devices, 4), np.float32)
    layers = range(leaves // 2)
    return {f"layer{k}": {name: np.ones((devices, 4), np.float32) for name in "wb"} for k in layers}


def fed_back(call: Fun, first: Any) -> Callable[[], Any]:
    """Calls whose result is the next call's argument, as in training."""
    last = first

    def again() -> Any:
        nonlocal last
        last = call(last)
        return last

    return again
