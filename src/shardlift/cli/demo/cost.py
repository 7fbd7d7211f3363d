"""What the program costs before and after: both run in turns, and the best of each counts."""

from __future__ import annotations

import re
from typing import NamedTuple

from rich.table import Table

from shardlift.cli.children import Done
from shardlift.cli.demo.stage import Stage

__all__ = ["Cost", "measure", "table"]

ROUNDS = 2
STEPS = 150
_SAID = re.compile(r"warm after ([\d.]+) s.*?([\d.]+) ms a step", re.DOTALL)


class Cost(NamedTuple):
    """Seconds."""

    step: float  # once it is warm, by the program's own clock
    warm: float  # compiling, and the first steps
    whole: float  # from the start of Python to its end


def cost_of(done: Done) -> Cost | None:
    """What the program said of itself; None if it failed.

    >>> cost_of(Done(0, "warm after 1.50 s\\nloss 0.1 after 9 steps, 4.00 ms a step\\n", 3.0))
    Cost(step=0.004, warm=1.5, whole=3.0)
    """
    said = _SAID.search(done.output)
    if done.status or said is None:
        return None
    return Cost(float(said[2]) / 1e3, float(said[1]), done.seconds)


def best(costs: list[Cost]) -> Cost:
    """The best of each number: whatever else the machine does only adds to it.

    >>> best([Cost(1, 5, 9), Cost(2, 4, 8)])
    Cost(step=1, warm=4, whole=8)
    """
    return Cost(*map(min, zip(*costs, strict=True)))


def measure(stage: Stage, before: str, after: str) -> tuple[Cost, Cost] | Done:
    """The costs of two commands, or what the one that failed did."""
    found: dict[str, list[Cost]] = {before: [], after: []}
    for _ in range(ROUNDS):
        for typed, costs in found.items():
            done = stage.run(typed, shown=stage.verbose)
            cost = cost_of(done)
            if cost is None:
                return done
            costs.append(cost)
    return best(found[before]), best(found[after])


def table(before: Cost, after: Cost) -> Table:
    """Side by side."""
    made = Table("", box=None, padding=(0, 2), pad_edge=False)
    for name in ("before", "after", "after / before"):
        made.add_column(name, justify="right")
    rows = {
        "a step": (before.step, after.step, 1e3, "ms"),
        "until it is warm": (before.warm, after.warm, 1, "s"),
        "the whole program": (before.whole, after.whole, 1, "s"),
    }
    for name, (old, new, scale, unit) in rows.items():
        made.add_row(
            name, f"{old * scale:.2f} {unit}", f"{new * scale:.2f} {unit}", f"{new / old:.2f}"
        )
    return made
