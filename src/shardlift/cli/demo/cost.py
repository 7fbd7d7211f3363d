"""Time the program before and after: both run in turns, and the best of each counts."""

from __future__ import annotations

import re
from typing import NamedTuple

from rich.table import Table

from shardlift.cli.children import Done
from shardlift.cli.demo.stage import Stage

__all__ = ["Cost", "measure", "table"]

ROUNDS = 2
STEPS = 150
_OUTPUT = re.compile(r"warm after ([\d.]+) s.*?([\d.]+) ms per step", re.DOTALL)


class Cost(NamedTuple):
    """Times in seconds."""

    step: float  # of one step once warm, measured by the program itself
    warm: float  # compilation and the first steps
    whole: float  # from the start of Python to its end


def cost_of(done: Done) -> Cost | None:
    """The times that the program printed; None if it failed.

    >>> cost_of(Done(0, "warm after 1.50 s\\nloss 0.1 after 9 steps, 4.00 ms per step\\n", 3.0))
    Cost(step=0.004, warm=1.5, whole=3.0)
    """
    times = _OUTPUT.search(done.output)
    if done.status or times is None:
        return None
    return Cost(float(times[2]) / 1e3, float(times[1]), done.seconds)


def best(costs: list[Cost]) -> Cost:
    """The minimum of each time, since other load on the machine only adds to it.

    >>> best([Cost(1, 5, 9), Cost(2, 4, 8)])
    Cost(step=1, warm=4, whole=8)
    """
    return Cost(*map(min, zip(*costs, strict=True)))


def measure(stage: Stage, before: str, after: str) -> tuple[Cost, Cost] | Done:
    """The costs of two commands, or the result of the first one that failed."""
    runs: dict[str, list[Cost]] = {before: [], after: []}
    for _ in range(ROUNDS):
        for command, costs in runs.items():
            done = stage.run(command, shown=stage.verbose)
            cost = cost_of(done)
            if cost is None:
                return done
            costs.append(cost)
    return best(runs[before]), best(runs[after])


def table(before: Cost, after: Cost) -> Table:
    """Both costs side by side."""
    result = Table("", box=None, padding=(0, 2), pad_edge=False)
    for name in ("before", "after", "after / before"):
        result.add_column(name, justify="right")
    rows = {
        "one step": (before.step, after.step, 1e3, "ms"),
        "until warm": (before.warm, after.warm, 1, "s"),
        "whole program": (before.whole, after.whole, 1, "s"),
    }
    for name, (old, new, scale, unit) in rows.items():
        result.add_row(
            name, f"{old * scale:.2f} {unit}", f"{new * scale:.2f} {unit}", f"{new / old:.2f}"
        )
    return result
