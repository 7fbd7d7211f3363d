"""Placing a tree on all devices, for the page: what `bench/placing.py` measures, by size."""

from __future__ import annotations

from typing import Any

from bench.harness import Bench, Row, in_fresh_process, row

OURS, GUIDE, ONE_COPY = "shardlift", "guide", "one copy"
TITLE = "Placing"
ABOUT = (
    "Milliseconds to put an array on 8 devices: a copy each (*replicated*) or a part each "
    "(*sharded*), by `shardlift.device_put_replicated` and `device_put_sharded`, and by the "
    "drop-ins of JAX's migration guide, to which the ratios are. *One copy* writes each "
    "byte of the result once, and does nothing else."
)
TARGET = "from 8 MB on at most half of the guide's"
MEGABYTES = (1, 8, 64)


def met(row: Row, devices: int) -> bool:
    """Small arrays are dispatch, not placing."""
    return row["size"] < 8 or row["ratio"][OURS] <= 0.5


def run(devices: int, quick: bool) -> list[Row]:
    """Measure in a process with that many devices."""
    rows: list[Row] = in_fresh_process(measure, devices, quick=quick)
    return rows


def measure(quick: bool) -> list[Row]:
    """Every size."""
    from bench import placing  # sets the number of devices: only in a process of its own

    found: list[Row] = []
    for megabytes in MEGABYTES[:1] if quick else MEGABYTES:
        measured: list[dict[str, Any]] = placing.time_placing(megabytes << 18, 2 if quick else 5)
        found += [row(m["case"], megabytes, m["best"], m["unit"], GUIDE) for m in measured]
    return found


BENCH = Bench(
    TITLE, ABOUT, TARGET, run, met, contenders=(GUIDE, OURS, ONE_COPY), ours=(OURS,), size="MB",
    devices=(8,), everywhere=False,
)  # fmt: skip

MEMORY_ABOUT = (
    "The peak of the process while it places 64 MB a device, above what it held before, as "
    "a multiple of the result."
)


def memory_met(row: Row, devices: int) -> bool:
    """Little more than what is asked for."""
    return row["best"][OURS] <= 1.1


def memory_run(devices: int, quick: bool) -> list[Row]:
    """Each contender once, in a process of its own."""
    rows: list[Row] = in_fresh_process(measure_memory, devices, quick=quick)
    return rows


def measure_memory(quick: bool) -> list[Row]:
    """Every case."""
    from bench import placing

    megabytes = 4 if quick else 64
    found = placing.memory(megabytes << 18)
    return [row(m["case"], megabytes, m["best"], m["unit"], GUIDE) for m in found]


MEMORY = Bench(
    "Peak memory of placing", MEMORY_ABOUT, "at most 1.1 times the result", memory_run, memory_met,
    contenders=(GUIDE, OURS), ours=(OURS,), size="MB", devices=(8,), everywhere=False,
)  # fmt: skip
