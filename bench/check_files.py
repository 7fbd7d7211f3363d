"""`shardlift check` against the number of files of a project that is made for it."""

from __future__ import annotations

import ast
import random
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.harness import Bench, Row, in_fresh_process, row

PARSE, CHECK = "ast.parse", "shardlift check"
TITLE = "Check"
ABOUT = (
    "Milliseconds to check a project, in one process that has started already, beside what "
    "it takes only to parse its files with Python's own parser. Every 25th file has a dozen "
    "pmaps, as in real projects; the others are the same code without the word."
)
TARGET = "at most half of the time that parsing all files takes, from 100 files on"
FILES = (10, 30, 100, 300, 1000)
FORMS = (
    "@jax.pmap\ndef step_{n}(state, batch):\n{body}",
    "@functools.partial(jax.pmap, axis_name='batch', donate_argnums=(0,))\n"
    "def step_{n}(state, batch):\n{body}",
    "def step_{n}(state, batch):\n{body}\n\np_step_{n} = jax.pmap(step_{n}, axis_name='batch')",
    "def step_{n}(state, batch):\n{body}\n\n"
    "p_step_{n} = jax.pmap(step_{n}, in_axes=(0, None), static_broadcasted_argnums=1)",
)


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
    from shardlift.cli.check_files import check_files

    found = []
    for files in FILES[:2] if quick else FILES:
        with tempfile.TemporaryDirectory() as folder:
            paths = project(Path(folder), files)
            contenders: dict[str, Callable[[], object]] = {
                PARSE: lambda paths=paths: [ast.parse(Path(p).read_bytes()) for p in paths],
                CHECK: lambda paths=paths: check_files(paths, RuleSelection()),
            }  # type: ignore[misc]
            best = in_turns(contenders, 2 if quick else 3)
        found.append(row("4 % with pmap", files, best, "ms", PARSE))
    return found


def project(folder: Path, files: int) -> list[str]:
    """So many modules, and their paths."""
    with_pmap = module()
    without = with_pmap.replace("pmap", "pmean").replace("jax", "numpy")
    paths = [folder / f"module_{k:04}.py" for k in range(files)]
    for k, path in enumerate(paths):
        path.write_text(without if k % 25 else with_pmap)
    return [str(path) for path in paths]


def module() -> str:
    """About 300 lines with a dozen pmaps."""
    body = "\n".join(f"    x_{k} = jnp.tanh(batch['x'] * state['w'] + {k})" for k in range(18))
    body += "\n    return jax.lax.pmean(x_0, 'batch')"
    head = "import functools\n\nimport jax\nimport jax.numpy as jnp\n\n\n"
    blocks = (FORMS[n % len(FORMS)].format(n=n, body=body) for n in range(12))
    return head + "\n\n\n".join(blocks) + "\n"


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
