"""Programs of projects that can be started: plainly, under `run`, and after `fix`.

A file of commands, one JSON object: a project's folder name to a list of commands, each run in
the root of a copy: `{"google+evojax": ["python examples/train_cartpole.py --max-iter 4"]}`.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

TIMEOUT = 400.0
VERDICTS = ("identical", "close", "partly compared", "different", "not reached")


@dataclass
class Program:
    """One command, and what came of it: "" or the last line of its error."""

    command: str
    plain: str = ""
    run: str = ""
    fixed: str = ""
    verified: str = ""  # the verdict of `fix --verify`
    seconds: tuple[float, float, float] = (0.0, 0.0, 0.0)  # plain, under run, after fix


def run_programs(folder: Path, commands: Sequence[str]) -> list[Program]:
    """Run the commands of a project, in copies of it."""
    return [_run(folder, command) for command in commands]


def _run(folder: Path, command: str) -> Program:
    program = Program(command)
    words = shlex.split(command)
    words[:1] = [sys.executable] if words[0].startswith("python") else words[:1]
    under = [sys.executable, "-m", "shardlift.cli", "run", *words[1:]]
    fix = [sys.executable, "-m", "shardlift.cli", "fix", ".", "--write", "--allow-dirty"]
    with _fresh(folder) as copy:
        program.plain, plain = _execute(words, copy)
    with _fresh(folder) as copy:
        program.run, run = _execute(under, copy)
    with _fresh(folder) as copy:
        _execute(fix, copy)
        program.fixed, fixed = _execute(words, copy)
    program.seconds = (plain, run, fixed)
    return program


@contextlib.contextmanager
def _fresh(folder: Path) -> object:
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / folder.resolve().name.rpartition("+")[2]
        shutil.copytree(folder, copy, symlinks=True)
        yield copy


def _execute(words: Sequence[str], folder: Path) -> tuple[str, float]:
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "4"}
    env["PYTHONPATH"] = os.pathsep.join([str(folder), env.get("PYTHONPATH", "")]).strip(":")
    start = time.monotonic()
    try:
        done = subprocess.run(
            words, cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return f"not done in {TIMEOUT:.0f} s", TIMEOUT
    seconds = round(time.monotonic() - start, 1)
    last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    return ("" if done.returncode == 0 else last[:200]), seconds
