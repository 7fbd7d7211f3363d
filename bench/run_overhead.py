"""What ``shardlift run`` adds to a call: the pmap it puts in against ``shardlift.pmap`` itself.

``python -m bench.run_overhead``: microseconds a call for next to nothing to compute, and for a
step of about a millisecond. Targets: at most 20 microseconds a call, and 2 % of such a step.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bench.contenders import fed_back, state
from bench.harness import in_fresh_process, race

CALL, STEP = 20.0, 0.02  # microseconds; share


def tiny(tree: Any) -> Any:
    """Next to nothing."""
    return jax.tree.map(lambda x: x + 1, tree)


def heavy(x: Any) -> Any:
    """About a millisecond on a core."""
    for _ in range(6):
        x = jnp.tanh(x @ x) * 0.5
    return x


def measure(devices: int, seconds: float) -> dict[str, dict[str, float]]:
    """Direct and put in, in turn; in this process."""
    import shardlift

    matrix = np.full((devices, 160, 160), 0.01, np.float32)
    cases = {
        "1 leaf": (tiny, state(1, devices)),
        "100 leaves": (tiny, state(100, devices)),
        "1 ms step": (heavy, matrix),
    }
    found = {}
    for name, (body, first) in cases.items():
        direct = shardlift.pmap(body, axis_name="i", reshard="silent")
        with shardlift.legacy():
            put_in = jax.pmap(body, axis_name="i")
        again = shardlift.pmap(body, axis_name="i", reshard="silent")
        calls = {
            kind: fed_back(call, call(first))
            for kind, call in (("direct", direct), ("run", put_in), ("direct again", again))
        }
        found[name] = race(calls, seconds, wait=name == "1 ms step")
    return found


def main() -> None:
    """Print a table for 1 and for 8 devices."""
    from bench import run_overhead  # by its name, which a fresh process can import

    for devices in (1, 8):
        found = in_fresh_process(run_overhead.measure, devices, devices=devices, seconds=4.0)
        print(f"\n{devices} device(s)   direct µs     run µs   added µs    share   (noise)")
        for name, times in found.items():
            added, share = times["run"] - times["direct"], times["run"] / times["direct"] - 1
            noise = times["direct again"] / times["direct"] - 1
            print(
                f"{name:12} {times['direct']:10.1f} {times['run']:10.1f} {added:10.2f} "
                f"{share:8.1%} {noise:9.1%}"
            )
    print(f"\ntargets: {CALL:.0f} µs a call, {STEP:.0%} of a step of 1 ms")


if __name__ == "__main__":
    main()
