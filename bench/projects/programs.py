"""What a project can start: its own tests that touch pmap, and commands that are given.

Each is run in copies of the project: plainly, under shardlift, and after `fix`.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

TIMEOUT = 150.0
_TOUCHES = re.compile(r"\bpmap\b|device_put_|jax_utils|with_pmap|local_device_count")


@dataclass
class Outcome:
    """What came of one execution."""

    passed: int = 0  # tests; 1 for a program that ends with status 0
    failed: int = 0
    error: str = ""  # the last line, if nothing passed
    seconds: float = 0.0


@dataclass
class Program:
    """One command, and what came of it."""

    command: str
    plain: Outcome = field(default_factory=Outcome)
    run: Outcome = field(default_factory=Outcome)
    fix: Outcome = field(default_factory=Outcome)


def own_tests(folder: Path, most: int = 2) -> list[str]:
    """Commands that run the project's tests with most uses of pmap."""
    uses = {}
    for path in [*folder.rglob("*_test.py"), *folder.rglob("test_*.py")]:
        number = len(_TOUCHES.findall(path.read_text(errors="replace")))
        if number:
            uses[path.relative_to(folder).as_posix()] = number
    best = sorted(uses, key=lambda path: (-uses[path], path))[:most]
    return [f"python -m pytest -q --maxfail=40 -p no:cacheprovider {path}" for path in best]


def run_programs(folder: Path, commands: Sequence[str]) -> list[Program]:
    """Run the commands of a project; those that could not even start are left out."""
    programs = [_run(folder, command) for command in commands]
    return [one for one in programs if any(o.passed for o in (one.plain, one.run, one.fix))]


def _run(folder: Path, command: str) -> Program:
    words = shlex.split(command)
    words[:1] = [sys.executable] if words[0].startswith("python") else words[:1]
    if words[1:3] == ["-m", "pytest"]:
        ours = [*words[:3], "-p", "shardlift.pytest", *words[3:]]
    else:
        ours = [sys.executable, "-m", "shardlift.cli", "run", "--quiet", *words[1:]]
    fix = [sys.executable, "-m", "shardlift.cli", "fix", ".", "--write", "--allow-dirty"]
    program = Program(command)
    with _copied(folder) as copy:
        program.plain = _execute(words, copy)
        program.run = _execute(ours, copy)
        _execute(fix, copy)
        program.fix = _execute(words, copy)
    return program


@contextlib.contextmanager
def _copied(folder: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / folder.resolve().name.rpartition("+")[2]
        shutil.copytree(folder, copy, symlinks=True)
        yield copy


def _execute(words: Sequence[str], folder: Path) -> Outcome:
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "4"}
    places = [str(folder), str(folder.parent), env.get("PYTHONPATH", "")]
    env["PYTHONPATH"] = os.pathsep.join(place for place in places if place)
    start = time.monotonic()
    try:
        done = subprocess.run(
            words, cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return Outcome(error=f"not done in {TIMEOUT:.0f} s", seconds=TIMEOUT)
    return outcome(done, round(time.monotonic() - start, 1))


def outcome(done: subprocess.CompletedProcess[str], seconds: float) -> Outcome:
    """Counts of pytest's last line, or the status of another program."""
    lines = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
    counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error)", lines[-1])}
    if "pytest" in done.args:
        passed = counts.get("passed", 0)
        failed = counts.get("failed", 0) + counts.get("error", 0)
        return Outcome(passed, failed, "" if passed else lines[-1][:200], seconds)
    fine = done.returncode == 0
    return Outcome(int(fine), int(not fine), "" if fine else lines[-1][:200], seconds)
