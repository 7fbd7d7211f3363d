"""``python -m bench.replication``: what the replication proof costs, beside the trace it needs.

The trace is made anew each time, but by a JAX that has traced all the parts before: the first
trace of a process takes several times longer, and the proof's share is then smaller.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import jax

from bench.steps import AXIS, CASES, Case
from shardlift._replication.mapped_program import MappedProgram, trace_site
from shardlift._replication.proof import prove
from shardlift.mapping.pmap_options import check_options
from shardlift.mapping.site import MappedFunction

TARGET = 0.1


def rows_of(case: Case, devices: int) -> tuple[Any, ...]:
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct((devices, *a.shape), a.dtype), case.args)


def trace(case: Case, args: tuple[Any, ...]) -> MappedProgram:
    def fresh(*args: Any) -> Any:  # another function each time: nothing is remembered of it
        return case.fun(*args)

    options = check_options(fresh, axis_name=AXIS)
    return trace_site(MappedFunction(lambda: fresh, "step", options), args, {})


def measure(name: str, devices: int, rounds: int) -> tuple[int, float, float]:
    """How many equations there are, and the best times of trace and proof, in turn."""
    case = CASES[name]()
    args = rows_of(case, devices)
    counts = [len(jax.tree.leaves(arg)) for arg in args]
    equal = [True] * counts[0] + [False] * sum(counts[1:])
    best = [float("inf")] * 2
    for _ in range(rounds):
        start = time.perf_counter()
        program = trace(case, args)
        middle = time.perf_counter()
        found = prove(program, equal)
        end = time.perf_counter()
        best = [min(best[0], middle - start), min(best[1], end - middle)]
    assert sum(not said for said in found.outputs.values()) == 1, found  # each device's own loss
    return equations(program.jaxpr.jaxpr), best[0], best[1]


def equations(jaxpr: Any) -> int:
    import jax.extend.core as jex

    return sum(
        1 + sum(equations(inner) for inner in jex.jaxprs_in_params(eqn.params))
        for eqn in jaxpr.eqns
    )


def main() -> int:
    """Print a table; 1 if a row misses the target."""
    parser = argparse.ArgumentParser(prog="python -m bench.replication", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    print(f"jax {jax.__version__}, target: at most {TARGET:.0%} of the trace\n")
    print("| program | devices | equations | trace, ms | proof, ms | proof / trace |")
    print("|---|---:|---:|---:|---:|---:|")
    missed = 0
    for name in CASES:
        for devices in (8, 2048):
            count, traced, proved = measure(name, devices, rounds)
            missed += proved > TARGET * traced
            shown = f"{1e3 * traced:.1f} | {1e3 * proved:.2f} | {proved / traced:.3f}"
            print(f"| {name} | {devices} | {count} | {shown} |", flush=True)
    print(f"\n{missed} rows miss the target" if missed else "\nevery row is in the target")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
