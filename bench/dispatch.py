"""The time a call takes to return, with next to nothing to compute."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

from bench.contenders import fed_back, make, rows_of, state
from bench.harness import AGAIN, JAX, LIMIT, OURS, SLACK, Bench, Row, in_fresh_process, race, row

TITLE = "Dispatch"
ABOUT = (
    "Microseconds until a call returns, of a function that adds 1 to every leaf of its state "
    "(float32, 4 numbers a row). *Fed back* is a state whose last value, arrays on the devices, "
    "is the next argument; *NumPy* is the same NumPy state each time."
)
TARGET = (
    "on 1 device at most 1.10 times the limit; everywhere no slower than `jax.pmap` "
    f"(by more than {SLACK - 1:.0%})"
)
LEAVES = (1, 10, 100, 400)


def met(row: Row, devices: int) -> bool:
    """Is the row within the target?"""
    near_limit = devices > 1 or row["ratio"][OURS] <= 1.10
    return near_limit and row["best"][OURS] <= SLACK * row["best"][JAX]


def run(devices: int, quick: bool) -> list[Row]:
    """Measure in a process with that many devices."""
    rows: list[Row] = in_fresh_process(measure, devices, devices=devices, quick=quick)
    return rows


def step(tree: Any) -> Any:
    """Next to nothing, but no two buffers can be shared."""
    return jax.tree.map(lambda x: x + 1, tree)


def measure(devices: int, quick: bool) -> list[Row]:
    """All leaf counts, both kinds of input."""
    found = []
    for leaves in LEAVES[:2] if quick else LEAVES:
        host = state(leaves, devices)
        placed = jax.device_put(host, rows_of(devices))
        calls = {name: make(name, step, devices) for name in (LIMIT, OURS, JAX, AGAIN)}
        kinds: dict[str, dict[str, Callable[[], Any]]] = {
            "fed back": {name: fed_back(call, placed) for name, call in calls.items()},
            "NumPy": {name: functools.partial(call, host) for name, call in calls.items()},
        }
        for kind, contenders in kinds.items():
            best = race(contenders, 0.2 if quick else 3.5, wait=False)
            found.append(row(kind, leaves, best))
    return found


BENCH = Bench(TITLE, ABOUT, TARGET, run, met, devices=(1, 2, 4, 8))
