"""``x[0]`` of a pmap's output: JAX's own, under ``shardlift run``, and what takes its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from bench.harness import Bench, Row, in_fresh_process, race, row

STOCK, PATCHED = "x[0]", "x[0], shardlift run"
UNREPLICATE = "shardlift.unreplicate"
TITLE = "Reading one row"
ABOUT = (
    "Microseconds of `x[0]` on the output of a pmap, 256 numbers a row: as JAX does it, "
    "which gathers from all devices; under `shardlift run`, which reads where the row lies; "
    "and `shardlift.unreplicate(x)`. Ratios are to JAX's own."
)
TARGET = "on 8 devices at most a twentieth of JAX's own `x[0]`"


def met(row: Row, devices: int) -> bool:
    """One device has nothing to gather."""
    return devices < 8 or max(row["ratio"][PATCHED], row["ratio"][UNREPLICATE]) <= 1 / 20


def run(devices: int, quick: bool) -> list[Row]:
    """Measure in a process with that many devices."""
    rows: list[Row] = in_fresh_process(measure, devices, devices=devices, quick=quick)
    return rows


def measure(devices: int, quick: bool) -> list[Row]:
    """The first row."""
    import shardlift
    from shardlift import _compat

    array_type = _compat.array_type()
    stock = array_type.__getitem__
    with shardlift.legacy():
        patched = array_type.__getitem__
        x = jax.pmap(lambda x: x)(np.ones((devices, 256), np.float32))
    contenders: dict[str, Callable[[], Any]] = {
        STOCK: lambda: stock(x, 0),
        PATCHED: lambda: patched(x, 0),
        UNREPLICATE: lambda: shardlift.unreplicate(x),
    }
    best = race(contenders, 0.2 if quick else 3.0, wait=False)
    return [row("a row", 256, best, reference=STOCK)]


BENCH = Bench(
    TITLE, ABOUT, TARGET, run, met,
    contenders=(STOCK, PATCHED, UNREPLICATE), ours=(PATCHED, UNREPLICATE), size="numbers",
    devices=(1, 2, 4, 8),
)  # fmt: skip
