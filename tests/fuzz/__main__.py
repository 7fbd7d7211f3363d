"""``python -m tests.fuzz [TARGET…] [--inputs 10000] [--seed 0]``: mutated files, by hand.

``programs`` are random programs that are migrated, and ``pairs`` those that are compared: each is
run by itself, and 1 is returned if something is wrong with one.
"""

import argparse
import importlib
import os
import random
import sys
import tempfile
import time

from tests.fuzz.mutating import mutated
from tests.fuzz.targets import TARGETS

# Their modules, and the number of devices. Most time is compilation: what JAX reads says so.
PROGRAMS = {"programs": ("migrate", "2"), "pairs": ("verify", "8")}  # one, two = rows


def main() -> int:
    """Feed every target, until one of them raises."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    names = ", ".join([*TARGETS, *PROGRAMS])
    parser.add_argument("targets", nargs="*", help=f"some of {names}; default all of files")
    parser.add_argument("--inputs", type=int, default=10_000, help="for each target")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name in options.targets or TARGETS:
        start, said, is_wrong = time.perf_counter(), f"{options.inputs} inputs", False
        if name in PROGRAMS:
            said, is_wrong = run_programs(*PROGRAMS[name], options.inputs, options.seed)
        for number in range(options.inputs) if name in TARGETS else ():
            data = mutated(name, random.Random(f"{name} {options.seed} {number}"))
            try:
                TARGETS[name](data)
            except Exception:
                print(f"{name}, seed {options.seed}, input {number}: {data!r}"[:3000])
                raise
        print(f"{name}: {said}, {time.perf_counter() - start:.0f} s", flush=True)
        if is_wrong:
            return 1
    return 0


def run_programs(module: str, devices: str, count: int, seed: int) -> tuple[str, bool]:
    """What came of random programs, and whether something was wrong."""
    with tempfile.TemporaryDirectory(prefix="shardlift-fuzz-") as folder:
        os.environ |= {
            "JAX_PLATFORMS": "cpu",
            "JAX_NUM_CPU_DEVICES": devices,
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
            "JAX_COMPILATION_CACHE_DIR": folder,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        outcome: tuple[str, bool] = importlib.import_module(f"tests.fuzz.{module}").work(
            count, seed
        )
        return outcome


if __name__ == "__main__":
    sys.exit(main())
