"""Run steps, migrate them with `--to jit`, run them again, and compare to rounding.

    python run_jit.py FOLDER COUNT

Prints one JSON object: for each step of `steps.ALLOWED`, and for COUNT random ones that are
rewritten, None or what went wrong.
"""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

import jax
import numpy as np

from shardlift import legacy
from shardlift.cli.verify_options import OTHER_ORDER
from shardlift.migrate.goal import Goal
from shardlift.verify.compare.bits import Tolerance, distance, within
from tests.migrate import run_programs
from tests.migrate.test_programs import migrated
from tests.migrate.whole_batch.random_steps import random_steps
from tests.migrate.whole_batch.steps import ALLOWED, program

BEFORE = "before: "


def verdict(text: str, folder: Path) -> str | None:
    """None if a program returns the same, to rounding, after it has become jit."""
    after, _ = migrated({"main.py": text}, goal=Goal.JIT)
    for name, content in (("before", text), ("after", after["main.py"])):
        (folder / name).mkdir(parents=True)
        (folder / name / "main.py").write_text(content)
    try:
        with legacy():
            expected = run_programs.run(folder / "before", before=True)
    except Exception:
        return f"{BEFORE}{traceback.format_exc()[-1500:]}"
    try:
        return difference(expected, run_programs.run(folder / "after", before=False))
    except Exception:
        return traceback.format_exc()[-1500:]


def difference(expected: Any, got: Any) -> str | None:
    """The first leaf that is not within the bound of `--to jit`."""
    # As text: the second program has classes of its own.
    if str(jax.tree.structure(expected)) != str(jax.tree.structure(got)):
        return f"{jax.tree.structure(expected)} became {jax.tree.structure(got)}"
    for left, right in zip(jax.tree.leaves(expected), jax.tree.leaves(got), strict=True):
        left, right = np.asarray(left), np.asarray(right)
        if left.shape != right.shape or not within(left, right, Tolerance(**OTHER_ORDER)):
            return f"{left} became {right}: {distance(left, right)}"
    return None


if __name__ == "__main__":
    root, count = Path(sys.argv[1]), int(sys.argv[2])
    found = {name: verdict(program(body), root / name) for name, body in ALLOWED.items()}
    for number, body in random_steps():
        said = verdict(program(body), root / str(number))
        if said is None or not said.startswith(BEFORE):  # no shapes were looked at
            found[f"random {number}"] = said
        if len(found) >= count + len(ALLOWED):
            break
    print(json.dumps(found))
