"""From an imported JAX to the first result: wrapping, tracing, lowering and compiling."""

from __future__ import annotations

import random
import time
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from bench.contenders import AXIS, make, rows_of, state
from bench.harness import JAX, LIMIT, OURS, SLACK, Bench, Row, in_fresh_process, row

TITLE = "Time to first call"
ABOUT = (
    "Milliseconds from wrapping a train step (a network of 50 small layers, gradients averaged "
    "with `pmean`) to its first result, each in a process of its own whose devices are awake. "
    "Ours includes the import of shardlift. *Wall* is what a clock on the wall says, *CPU* what "
    "all threads of the process worked, which other work on the machine disturbs less."
)
TARGET = f"no slower than `jax.pmap` (by more than {SLACK - 1:.0%})"
LEAVES = 100


def met(row: Row, devices: int) -> bool:
    """Is the row within the target?"""
    return row["best"][OURS] <= SLACK * row["best"][JAX]


def loss(layers: Any, batch: Any) -> Any:
    """A chain of layers: an elementwise weight, a bias, a tanh."""
    hidden = batch
    for layer in layers.values():
        hidden = jnp.tanh(hidden * layer["w"] + layer["b"])
    return jnp.mean(hidden**2)


def train_step(layers: Any, batch: Any) -> Any:
    """One step of gradient descent."""
    value, gradients = jax.value_and_grad(loss)(layers, batch)
    gradients = lax.pmean(gradients, AXIS)
    return jax.tree.map(lambda w, g: w - 0.1 * g, layers, gradients), value


def first_call(name: str, devices: int, leaves: int) -> dict[str, float]:
    """Milliseconds of the contender ``name`` in this process, which has done little before."""
    arguments = state(leaves, devices), state(1, devices)
    placed = jax.device_put(arguments, rows_of(devices))
    jax.block_until_ready(jax.jit(jnp.sin)(placed[1]))
    clocks = {"wall": time.perf_counter, "CPU": time.process_time}
    start = {kind: clock() for kind, clock in clocks.items()}
    jax.block_until_ready(make(name, train_step, devices)(*placed))
    return {kind: 1e3 * (clock() - start[kind]) for kind, clock in clocks.items()}


def run(devices: int, quick: bool) -> list[Row]:
    """The best of several processes each, in turn."""
    names = (LIMIT, OURS, JAX)
    best = {kind: dict.fromkeys(names, float("inf")) for kind in ("wall", "CPU")}
    leaves, processes = (20, 1) if quick else (LEAVES, 5)
    for _ in range(processes):
        for name in random.sample(names, len(names)):
            arguments = {"name": name, "devices": devices, "leaves": leaves}
            for kind, spent in in_fresh_process(first_call, devices, **arguments).items():
                best[kind][name] = min(best[kind][name], spent)
    return [row(kind, leaves, found, "ms") for kind, found in best.items()]


BENCH = Bench(TITLE, ABOUT, TARGET, run, met)
