"""Timing that noise spoils least, and processes with the number of devices they need.

Contenders run in turn, in a new random order each round, and the quickest tenth of a
contender's rounds counts: whatever else the machine does only slows them. The one quickest will
not do: with more devices than cores it is a lucky schedule, by which equals differ by 20 %.
The limit runs twice, so that every case shows how far apart equals are.
"""

from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import jax

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"

LIMIT, OURS, JAX, AGAIN = "jit(shard_map)", "shardlift.pmap", "jax.pmap", "limit again"
SLACK = 1.05  # "no slower" means: not by more than this, which is what noise does to equals

# So few that the queue of no device is full: then a call returns when it has been dispatched.
BURST = 16


class Row(TypedDict):
    """One case: the best of each contender, in ``unit``, and its ratio to the first of them."""

    case: str
    size: int  # of what the bench says
    unit: str
    best: dict[str, float]
    ratio: dict[str, float]


class Machine(TypedDict):
    """What the rows were measured on."""

    jax: str
    platform: str
    device_kind: str
    cores: int


class Record(Row, Machine):
    """A row with all there is to know about it; the form of the files in ``results``."""

    devices: int


@dataclass(frozen=True)
class Bench:
    """One benchmark: a section of the page, and how to measure it."""

    title: str
    about: str
    target: str
    run: Callable[[int, bool], list[Row]]  # with so many devices; only a glance?
    met: Callable[[Row, int], bool]  # is a row, with so many devices, in the target?
    contenders: tuple[str, ...] = (LIMIT, OURS, JAX)  # what ratios are to comes first
    ours: tuple[str, ...] = (OURS,)  # those whose ratio must not grow
    size: str = "leaves"
    devices: tuple[int, ...] = (1, 8)  # virtual ones of a CPU; 0 where they do not matter
    everywhere: bool = True  # on an accelerator too, on one device


def row(
    case: str, size: int, best: Mapping[str, float], unit: str = "µs", reference: str = LIMIT
) -> Row:
    """The ratios are to the contender ``reference``."""
    ratio = {name: round(value / best[reference], 3) for name, value in best.items()}
    rounded = {name: round(value, 2) for name, value in best.items()}
    return Row(case=case, size=size, unit=unit, best=rounded, ratio=ratio)


def race(
    contenders: Mapping[str, Callable[[], Any]], seconds: float, *, wait: bool
) -> dict[str, float]:
    """The microseconds of each contender for one call.

    ``wait``: does the time include that the result is ready? Dispatch is measured without, and
    the clock stands still while a burst of calls is waited for.
    """
    repeats = min(_repeats(call) for call in contenders.values())
    times: dict[str, list[float]] = {name: [] for name in contenders}
    names = list(contenders)
    deadline, rounds = time.perf_counter() + seconds, 0
    gc.disable()
    try:
        while rounds < 5 or time.perf_counter() < deadline:
            random.shuffle(names)
            for name in names:
                times[name].append(_time(contenders[name], repeats, wait))
            rounds += 1
            if rounds % 20 == 0:
                gc.collect()
    finally:
        gc.enable()
    return {name: 1e6 * _first_tenth(found) for name, found in times.items()}


def _first_tenth(times: list[float]) -> float:
    return statistics.quantiles(times, n=10, method="inclusive")[0]


def _time(call: Callable[[], Any], repeats: int, wait: bool) -> float:
    """Seconds of one call, from a burst of them."""
    start = time.perf_counter()
    for _ in range(repeats):
        out = call()
    if wait:
        jax.block_until_ready(out)
    spent = time.perf_counter() - start
    jax.block_until_ready(out)
    return spent / repeats


def _repeats(call: Callable[[], Any]) -> int:
    """Warm up, and choose how many calls make a burst of a millisecond."""
    for _ in range(3):
        jax.block_until_ready(call())
    return max(1, min(BURST, int(1e-3 / _time(call, 1, wait=True))))


def in_fresh_process(function: Callable[..., Any], devices: int, /, **kwargs: Any) -> Any:
    """What ``function``, of a module, returns in a new process; ``devices`` counts CPU devices."""
    code = (
        "import importlib, json, sys\n"
        "module, name, kwargs = json.loads(sys.argv[1])\n"
        "print(json.dumps(getattr(importlib.import_module(module), name)(**kwargs)))"
    )
    env = child_environment(devices)
    call = json.dumps([function.__module__, function.__name__, kwargs])
    child = [sys.executable, "-c", code, call]
    done = subprocess.run(child, env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def child_environment(devices: int) -> dict[str, str]:
    """Of a process that measures: so many CPU devices, and this very tree to import from."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return os.environ | {
        "JAX_NUM_CPU_DEVICES": str(devices),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }


def this_machine() -> Machine:
    """Asks JAX, which takes hold of the device: for a process of its own."""
    return Machine(
        jax=importlib.metadata.version("jax"),
        platform=jax.default_backend(),
        device_kind=jax.devices()[0].device_kind,
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1,
    )
