"""``python -m tests.fuzz [TARGET…] [--inputs 10000] [--seed 0]``: mutated files, by hand."""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback

from tests.fuzz.mutating import mutated
from tests.fuzz.targets import TARGETS


def main() -> int:
    """Feed every target; 1 if one of them raised."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", help=f"some of {', '.join(TARGETS)}; default all")
    parser.add_argument("--inputs", type=int, default=10_000, help="for each target")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    kinds: dict[str, int] = {}
    for name in options.targets or TARGETS:
        start, slowest = time.perf_counter(), 0.0
        for number in range(options.inputs):
            data = mutated(name, random.Random(f"{name} {options.seed} {number}"))
            began = time.perf_counter()
            try:
                TARGETS[name](data)
            except Exception as error:
                frame = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{name}: {type(error).__name__} in {frame.filename}:{frame.lineno}"
                kinds[where] = kinds.get(where, 0) + 1
                if kinds[where] == 1:
                    traceback.print_exc()
                    print(f"{where}\nseed {options.seed}, input {number}: {data!r}"[:3000])
            slowest = max(slowest, time.perf_counter() - began)
        seconds = time.perf_counter() - start
        print(f"{name}: {options.inputs} inputs, {seconds:.0f} s, the slowest {slowest:.2f} s")
        sys.stdout.flush()
    for where, count in kinds.items():
        print(f"{count:6} {where}")
    return int(bool(kinds))


if __name__ == "__main__":
    sys.exit(main())
