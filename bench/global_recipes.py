"""``python -m bench.global_recipes``: what `migrate --to global` writes, beside idiomatic.py.

For each recipe of examples/ and the program of the demo: how many lines of code it writes, how many
lines a person's version (`idiomatic.py`) has that the program did not have, how many of ours belong
to helpers, and how many sites became plain `jax.shard_map`. Facts are recorded by `shardlift run
--record`, where the libraries of a recipe are installed.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from shardlift.capture.files import read as read_capture
from shardlift.capture.schema import Capture
from shardlift.rewrite.engine import migrate
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.helpers import catalogue

ROOT = Path(__file__).parents[1]
DEMO = ROOT / "src/shardlift/cli/demo/program/train.py"
TIMEOUT = 300
MOST = 1.5  # times the lines that a person changes


class Recipe(NamedTuple):
    """What came of one program."""

    name: str
    facts: bool
    lines: int  # of code that were added
    by_hand: int | None  # that a person would add
    helpers: int  # lines of helpers among them
    sites: int
    plain: int  # sites that are plain `jax.shard_map`


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.global_recipes", description=__doc__)
    parser.add_argument("names", nargs="*", help="some of the recipes; default all")
    parser.add_argument("--devices", type=int, default=8)
    parser.add_argument(
        "--recorded", metavar="FOLDER", help="use FOLDER/NAME/run.json if it exists"
    )
    options = parser.parse_args(arguments)
    programs = {"demo": DEMO, **{p.parent.name: p for p in ROOT.glob("examples/*/before.py")}}
    names = options.names or sorted(programs)
    recipes = []
    for name in names:
        there = Path(options.recorded or "") / name / "run.json"
        known = options.recorded is not None and there.exists()
        capture = read_capture(there) if known else record(programs[name], options.devices)
        recipes.append(measure(name, programs[name], capture))
    print("| program | facts | lines written | by hand | of helpers | sites plain |")
    print("|---|---|---|---|---|---|")
    for one in recipes:
        by_hand = "" if one.by_hand is None else one.by_hand
        cells = (one.lines, by_hand, one.helpers, f"{one.plain} of {one.sites}")
        recorded = "yes" if one.facts else "no"
        print(f"| {one.name} | {recorded} | {' | '.join(map(str, cells))} |")
    bare = sum(one.helpers == 0 for one in recipes)
    few = sum(one.by_hand is not None and one.lines <= MOST * one.by_hand for one in recipes)
    print(f"\nwithout a helper: {bare} of {len(recipes)}; at most {MOST} times the lines: {few}")
    return 0


def measure(name: str, program: Path, capture: Capture | None) -> Recipe:
    """Migrate and count."""
    before = program.read_text()
    result = migrate(
        [str(program)],
        lambda path: Path(path).read_bytes(),
        os.path.exists,
        Goal.GLOBAL,
        facts=[capture] if capture is not None else [],
    )
    texts = [file.after for file in result.changed] or [before]
    after = next((file.after for file in result.changed if file.path == str(program)), before)
    idiomatic = program.with_name("idiomatic.py")
    by_hand = added(before, idiomatic.read_text()) if idiomatic.exists() else None
    written = added(before, after) + sum(map(code_lines, set(texts) - {after}))
    helpers = sum(map(helper_lines, texts))
    return Recipe(
        name, capture is not None, written, by_hand, helpers, count(before, "pmap"), plain(after)
    )


def record(program: Path, devices: int) -> Capture | None:
    """The facts of a run of a copy; None where a library is missing or the run fails.

    A copy, since what is inside of the package, as the program of the demo, is not recorded.
    """
    processes = 2 if "distributed.initialize" in program.read_text() else 1
    counts = ("--devices", str(devices // processes), "--processes", str(processes))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.json")
        shutil.copy(program, folder)
        command = [sys.executable, "-m", "shardlift", "run", *counts]
        try:
            done = subprocess.run(
                [*command, "--record", path, program.name],
                cwd=folder,
                capture_output=True,
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            return None
        return read_capture(path) if done.returncode == 0 and os.path.exists(path) else None


def added(before: str, after: str) -> int:
    """How many lines of code a text has that another did not."""
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return sum(line.startswith("+ ") and is_code(line[2:]) for line in lines)


def is_code(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def code_lines(text: str) -> int:
    return sum(map(is_code, text.splitlines()))


def helper_lines(text: str) -> int:
    """The lines of code of the helpers in a text."""
    nodes = [n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef)]
    helpers = [n for n in nodes if n.name in catalogue()]
    return sum(code_lines(ast.get_source_segment(text, node) or "") for node in helpers)


def plain(text: str) -> int:
    """How many sites call `jax.shard_map` itself."""
    return count(text, "shard_map")


def count(text: str, attribute: str) -> int:
    """How often an attribute is read outside of helpers, as `pmap` in `jax.pmap`."""
    tree = ast.parse(text)
    helpers = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in catalogue()]
    inside = {node for helper in helpers for node in ast.walk(helper)}
    found = (n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == attribute)
    return sum(node not in inside for node in found)


if __name__ == "__main__":
    sys.exit(main())
