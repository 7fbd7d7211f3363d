"""The pmapped function inside a larger jitted program: what runs is what counts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from bench.contenders import AXIS, bare, fed_back, lifted, rows_of, state
from bench.harness import AGAIN, JAX, LIMIT, OURS, SLACK, Bench, Row, in_fresh_process, race, row

TITLE = "Under jit and scan"
ABOUT = (
    "Microseconds until the result is ready. *jit* is one jitted call that contains two pmapped "
    "steps, *scan* one jitted call of 1000 pmapped steps in `lax.scan`; a step does one `pmean` "
    "and updates every leaf. The limit is the same `jit` around bare `shard_map`."
)
TARGET = f"no slower than the same `jit` around bare `shard_map` (by more than {SLACK - 1:.0%})"
STEPS = 1000
QUICK_STEPS = 100


def met(row: Row, devices: int) -> bool:
    """Is the row within the target?"""
    return row["ratio"][OURS] <= SLACK


def run(devices: int, quick: bool) -> list[Row]:
    """Measure in a process with that many devices."""
    rows: list[Row] = in_fresh_process(measure, devices, devices=devices, quick=quick)
    return rows


def step(tree: Any) -> Any:
    """A little arithmetic on every leaf, and one collective."""
    mean = lax.pmean(jnp.mean(jax.tree.leaves(tree)[0]), AXIS)
    return jax.tree.map(lambda x: 0.9 * x + 0.1 * mean, tree)


def under_jit(mapped: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Two steps in one program."""
    return jax.jit(lambda tree: mapped(mapped(tree)))


def in_scan(mapped: Callable[[Any], Any], steps: int = STEPS) -> Callable[[Any], Any]:
    """Many steps in one program."""
    return jax.jit(
        lambda tree: lax.scan(lambda carry, _: (mapped(carry), None), tree, length=steps)[0]
    )


def measure(devices: int, quick: bool) -> list[Row]:
    """Both compositions; a few leaves and many under jit."""
    found = []
    scan = functools.partial(in_scan, steps=QUICK_STEPS) if quick else in_scan
    for case, compose, leaves in (
        ("jit", under_jit, 1),
        ("jit", under_jit, 10 if quick else 100),
        ("scan", scan, 10),
    ):
        placed = jax.device_put(state(leaves, devices), rows_of(devices))
        mapped = {
            LIMIT: bare(step, devices),
            OURS: lifted(step),
            JAX: jax.pmap(step, axis_name=AXIS),
            AGAIN: bare(step, devices),
        }
        contenders = {name: fed_back(compose(call), placed) for name, call in mapped.items()}
        best = race(contenders, 0.2 if quick else 5.0, wait=True)
        found.append(row(case, leaves, best))
    return found


BENCH = Bench(TITLE, ABOUT, TARGET, run, met)
