"""The most memory that a call holds at once."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bench.contenders import make, rows_of
from bench.harness import JAX, LIMIT, OURS, SLACK, Bench, Row, in_fresh_process, row

TITLE = "Peak memory"
ABOUT = (
    "Megabytes at the peak of the first call with an argument of 64 MB and a result of 64 MB, "
    "above what the process held before the argument was made; what the device reports where "
    "it does, else the resident set of the process."
)
TARGET = f"not above `jax.pmap` (by more than {SLACK - 1:.0%})"
CASES = ("on the devices", "on the devices, donated", "NumPy")
MEGABYTE = 1 << 20
FLOATS = 64 * MEGABYTE // 4


def met(row: Row, devices: int) -> bool:
    """Is the row within the target?"""
    return row["best"][OURS] <= SLACK * row["best"][JAX]


def held() -> int:
    """Bytes held now."""
    stats = jax.devices()[0].memory_stats()
    return stats["bytes_in_use"] if stats else _resident("VmRSS")


def peak() -> int:
    """The most bytes that were held so far."""
    stats = jax.devices()[0].memory_stats()
    return stats["peak_bytes_in_use"] if stats else _resident("VmHWM")


def _resident(field: str) -> int:
    """A field of Linux's account of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    raise LookupError(field)


def step(x: Any) -> Any:
    """Needs no memory but its result's."""
    return 2 * x + 1


def argument(case: str, devices: int, floats: int) -> Any:
    """An argument of so many numbers; made where it will lie, without a copy of it elsewhere."""
    shape = (devices, floats // devices)
    if case == "NumPy":
        return np.ones(shape, np.float32)
    ones = jax.jit(functools.partial(jnp.ones, shape), out_shardings=rows_of(devices))
    return jax.block_until_ready(ones())


def call_peak(case: str, name: str, devices: int) -> float:
    """Megabytes of the contender ``name`` in this process."""
    call = make(name, step, devices, donate=(0,) if "donated" in case else ())
    jax.block_until_ready(call(argument(case, devices, 4 * devices)))
    before = held()
    x = argument(case, devices, FLOATS)
    jax.block_until_ready(call(x))
    return (peak() - before) / MEGABYTE


def run(devices: int, quick: bool) -> list[Row]:
    """The best of several processes each, in turn."""
    rows = []
    for case in CASES[1:2] if quick else CASES:
        best = dict.fromkeys((LIMIT, OURS, JAX), float("inf"))
        for _ in range(1 if quick else 2):
            for name in random.sample(list(best), len(best)):
                arguments = {"case": case, "name": name, "devices": devices}
                best[name] = min(best[name], in_fresh_process(call_peak, devices, **arguments))
        rows.append(row(case, 1, best, "MB"))
    return rows


BENCH = Bench(TITLE, ABOUT, TARGET, run, met)
