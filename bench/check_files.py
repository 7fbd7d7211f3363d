"""`shardlift check` against the number of files of a project that is made for it."""

from __future__ import annotations

import ast
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.harness import Bench, Row, in_fresh_process, row
from bench.migrate_speed import made

PARSE, CHECK = "ast.parse", "shardlift check"
TITLE = "Check"
ABOUT = (
    "Milliseconds to check a project, in one process that has started already, beside what "
    "it takes only to parse its files with Python's own parser. Every 25th file has a dozen "
    "pmaps, as in real projects; the others are the same code without the word."
)
TARGET = "at most half of the time that parsing all files takes, from 100 files on"
FILES = (10, 30, 100, 300, 1000)


def met(row: Row, devices: int) -> bool:
    """Of ten files, none may be passed over."""
    return row["size"] < 100 or row["ratio"][CHECK] <= 0.5


def run(devices: int, quick: bool) -> list[Row]:
    """Measure in a process of its own."""
    rows: list[Row] = in_fresh_process(measure, 1, quick=quick)
    return rows


def measure(quick: bool) -> list[Row]:
    """Every number of files."""
    from shardlift.check.engine import RuleSelection
    from shardlift.cli.check_pool import run as check

    found = []
    for files in FILES[:2] if quick else FILES:
        with tempfile.TemporaryDirectory() as folder:
            paths = project(Path(folder), files)
            contenders: dict[str, Callable[[], object]] = {
                PARSE: lambda paths=paths: [ast.parse(Path(p).read_bytes()) for p in paths],
                CHECK: lambda paths=paths: check(paths, RuleSelection(), jobs=1),
            }  # type: ignore[misc]
            best = in_turns(contenders, 2 if quick else 3)
        found.append(row("4 % with pmap", files, best, "ms", PARSE))
    return found


def project(folder: Path, files: int) -> list[str]:
    """So many modules, and their paths."""
    with_pmap = made()
    without = with_pmap.replace("pmap", "pmean").replace("jax", "numpy")
    paths = [folder / f"module_{k:04}.py" for k in range(files)]
    for k, path in enumerate(paths):
        path.write_text(without if k % 25 else with_pmap)
    return [str(path) for path in paths]


def in_turns(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Processor milliseconds, the best of several."""
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name in random.sample(list(contenders), len(contenders)):
            start = time.process_time()
            contenders[name]()
            best[name] = min(best[name], 1e3 * (time.process_time() - start))
    return best


BENCH = Bench(
    TITLE, ABOUT, TARGET, run, met, contenders=(PARSE, CHECK), ours=(CHECK,), size="files",
    devices=(0,), everywhere=False,
)  # fmt: skip
