"""What recording adds to a call: ``python -m bench.record_overhead``.

The same function is called through ``shardlift.pmap`` and through a recorded one, in turn. A step
of about a millisecond (the work is sized on the machine at hand), and one that does next to
nothing. The target: at most 2 % of the step of 1 ms, and at most 20 microseconds a call.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from bench.contenders import fed_back
from bench.harness import RESULTS, in_fresh_process, race, this_machine

PLAIN, RECORDED, AGAIN = "plain", "recorded", "plain again"
MOST_MICROSECONDS, MOST_SHARE = 20.0, 0.02


def step(tree: Any, turns: int) -> Any:
    """Some work, on every leaf."""

    def work(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, turns, lambda _, y: jax.numpy.cos(y), x)

    return jax.tree.map(work, tree)


def measure(devices: int, leaves: int, turns: int, seconds: float) -> dict[str, Any]:
    """Microseconds a call of each."""
    import shardlift
    from shardlift.facts import Recorder

    state = {f"w{k}": np.ones((devices, 64), np.float32) for k in range(leaves)}
    recorder = Recorder()
    pmaps = {PLAIN: shardlift.pmap, RECORDED: recorder.pmap(shardlift.pmap), AGAIN: shardlift.pmap}
    contenders: dict[str, Callable[[], Any]] = {}
    for name, pmap in pmaps.items():
        call = pmap(lambda tree: step(tree, turns), axis_name="i")
        contenders[name] = fed_back(call, call(state))
    for call in contenders.values():
        for _ in range(50):  # the first calls are looked at closely: not what is measured here
            jax.block_until_ready(call())
    best = race(contenders, seconds, wait=turns > 0)
    return {
        "devices": devices,
        "leaves": leaves,
        "turns": turns,
        "best": {name: round(value, 2) for name, value in best.items()},
    }


def turns_for(devices: int, microseconds: float) -> int:
    """How much work makes a step of that length here."""
    turns = 64
    while True:
        took: float = in_fresh_process(
            measure, devices, devices=devices, leaves=1, turns=turns, seconds=0.3
        )["best"][PLAIN]
        if took > 0.7 * microseconds or turns > 2**20:
            return turns
        turns = int(turns * min(8, max(1.3, microseconds / took)))


def main() -> int:
    """Print a table, keep the figures; 1 if a row misses the target."""
    quick = "--quick" in sys.argv
    machine = in_fresh_process(this_machine, 1)
    rows, missed = [], 0
    counts = (1, 8) if machine["platform"] == "cpu" else (1,)
    print("devices  leaves  work    plain µs  recorded µs  added µs  of a step  noise µs  target")
    for devices in counts:
        long = turns_for(devices, 1000)
        for leaves, turns in ((1, 0), (100, 0), (1, long)):
            row = in_fresh_process(
                measure, devices, devices=devices, leaves=leaves, turns=turns,
                seconds=2.0 if quick else 8.0,
            )  # fmt: skip
            best = row["best"]
            added = best[RECORDED] - min(best[PLAIN], best[AGAIN])
            noise = abs(best[PLAIN] - best[AGAIN])
            part = added / best[PLAIN]
            fine = added <= MOST_MICROSECONDS and (not turns or part <= MOST_SHARE)
            missed += not fine
            rows.append(row | machine)
            print(
                f"{devices:7}  {leaves:6}  {'1 ms' if turns else 'none'}  {best[PLAIN]:10.1f}"
                f"  {best[RECORDED]:11.1f}  {added:8.1f}  {part:9.1%}  {noise:8.1f}"
                f"  {'met' if fine else 'MISSED'}",
                flush=True,
            )
    if not quick:
        path = RESULTS / f"record_overhead-{machine['platform']}-{machine['jax']}.json"
        path.write_text(json.dumps(rows, indent=1) + "\n")
    return int(missed > 0 and not quick)


if __name__ == "__main__":
    from bench import record_overhead  # by its name: other processes import it

    sys.exit(record_overhead.main())
