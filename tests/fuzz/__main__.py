"""``python -m tests.fuzz [TARGET…] [--inputs 10000] [--seed 0]``: mutated files, by hand."""

import argparse
import random
import time

from tests.fuzz.mutating import mutated
from tests.fuzz.targets import TARGETS


def main() -> None:
    """Feed every target, until one of them raises."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", help=f"some of {', '.join(TARGETS)}; default all")
    parser.add_argument("--inputs", type=int, default=10_000, help="for each target")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name in options.targets or TARGETS:
        start = time.perf_counter()
        for number in range(options.inputs):
            data = mutated(name, random.Random(f"{name} {options.seed} {number}"))
            try:
                TARGETS[name](data)
            except Exception:
                print(f"{name}, seed {options.seed}, input {number}: {data!r}"[:3000])
                raise
        print(f"{name}: {options.inputs} inputs, {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
