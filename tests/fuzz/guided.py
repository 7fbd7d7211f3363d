"""``python -m tests.fuzz.guided TARGET [FOLDER] [-runs=N]``: what reaches new code, by atheris.

By hand, and not in the suite: `pip install atheris`. What it finds goes to the tests as a case
of its own.
"""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["shardlift"]):
    from shardlift.check.rules import all_rules
    from tests.fuzz.targets import TARGETS

    all_rules()  # which imports them

from tests.fuzz.mutating import corpus, mutated


def main() -> None:
    """Begin with the corpus of the target; libFuzzer's own options follow."""
    name, *options = sys.argv[1:]
    target = TARGETS[name]
    folder = tempfile.mkdtemp(prefix=f"fuzz-{name}-")
    for number, data in enumerate(corpus(name)):
        Path(folder, str(number)).write_bytes(data)

    def change(data: bytes, most: int, seed: int) -> bytes:
        rng = random.Random(seed)
        own = rng.random() < 0.3
        found = mutated(name, rng) if own else atheris.Mutate(data, most)
        return found[:most]

    atheris.Setup([sys.argv[0], folder, *options], target, custom_mutator=change)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
