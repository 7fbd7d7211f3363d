"""What a project can start: the starters that are given, or else its own tests that touch pmap.

A starter is a Python file outside the project that feeds random numbers to one of its programs.
It is copied into the project's root folder, takes a number of steps as its only argument, and may
print `step_ms NUMBER`. Everything runs in copies of the project.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

TIMEOUT = 400.0
STEPS, VERIFIED_STEPS = "12", "3"
START = "start_of_shardlift.py"
_TOUCHES = re.compile(r"\bpmap\b|device_put_|jax_utils|with_pmap|local_device_count")
_SHARDLIFT = [sys.executable, "-m", "shardlift.cli"]
_PYTEST = ["-m", "pytest", "-q", "--color=no", "--maxfail=40", "-p", "no:cacheprovider"]


@dataclass
class Outcome:
    """What came of one execution."""

    passed: int = 0  # tests; 1 for a program that ends with status 0
    failed: int = 0
    error: str = ""  # the last line, if nothing passed
    seconds: float = 0.0
    step_ms: float = 0.0  # 0 where it does not say


@dataclass
class Program:
    """One test file or starter, and what came of it."""

    name: str
    plain: Outcome = field(default_factory=Outcome)
    run: Outcome = field(default_factory=Outcome)  # under shardlift
    fix: Outcome = field(default_factory=Outcome)
    migrate: Outcome = field(default_factory=Outcome)
    verified: str = ""  # what `verify` says of a starter, before and after `migrate`
    speed: float = 0.0  # a step after `migrate`, as a multiple of the step before; 0: not measured


def own_tests(folder: Path, most: int = 2) -> list[str]:
    """The project's test files with most uses of pmap."""
    uses = {}
    for path in [*folder.rglob("*_test.py"), *folder.rglob("test_*.py")]:
        number = len(_TOUCHES.findall(path.read_text(errors="replace")))
        if number:
            uses[path.relative_to(folder).as_posix()] = number
    return sorted(uses, key=lambda path: (-uses[path], path))[:most]


def run_programs(folder: Path, starters: Sequence[Path] = ()) -> list[Program]:
    """Run a project's starters or else its own tests, as they are and after each rewrite."""
    tests = [] if starters else own_tests(folder)
    if not tests and not starters:
        return []
    with tempfile.TemporaryDirectory() as place:
        name = folder.resolve().name.rpartition("+")[2]
        copies = {key: Path(place).resolve() / key / name for key in ("plain", "fix", "migrate")}
        for key, copy in copies.items():
            shutil.copytree(folder, copy, symlinks=True)
            if key != "plain":
                _execute([*_SHARDLIFT, key, ".", "--write", "--allow-dirty"], copy)
                if _texts(copy) == _texts(copies["plain"]):  # what ran need not run again
                    copies[key] = copies["plain"]
        programs = [_test(test, copies) for test in tests]
        return programs + [_start(starter, copies) for starter in starters]


def _texts(folder: Path) -> dict[Path, bytes]:
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.py")}


def touching_tests(text: str) -> list[str]:
    """The names of the test functions that touch pmap; none if something around them does."""
    tests = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test")
    ]
    source = {node.name: ast.get_source_segment(text, node) or "" for node in tests}
    return [name for name, body in source.items() if _TOUCHES.search(body)]


def _test(path: str, copies: Mapping[str, Path]) -> Program:
    names = touching_tests((copies["plain"] / path).read_text())
    words = [sys.executable, *_PYTEST, path, *(["-k", " or ".join(names)] if names else [])]
    under = _execute([*words, "-p", "shardlift.pytest"], copies["plain"])
    if "No module named" in under.error:  # a library is not installed: no rewrite changes that
        return Program(path, under, under, under, under)
    return _execute_all(Program(path, run=under), words, copies)


def _execute_all(program: Program, words: Sequence[str], copies: Mapping[str, Path]) -> Program:
    program.plain = _execute(words, copies["plain"])
    for key in ("fix", "migrate"):
        is_same = copies[key] == copies["plain"]
        setattr(program, key, program.plain if is_same else _execute(words, copies[key]))
    return program


def _start(starter: Path, copies: Mapping[str, Path]) -> Program:
    for copy in copies.values():
        shutil.copyfile(starter, copy / START)
    ours = [*_SHARDLIFT, "run", "--quiet", START, STEPS]
    program = Program(starter.stem, run=_execute(ours, copies["plain"]))
    _execute_all(program, [sys.executable, START, STEPS], copies)
    if program.migrate.passed and copies["migrate"] != copies["plain"]:
        program.verified = _verify(copies)
        if program.fix.step_ms:  # pmap is timed after `fix`, as plain JAX may not start it
            program.speed = round(program.migrate.step_ms / program.fix.step_ms, 2)
    return program


def _verify(copies: Mapping[str, Path]) -> str:
    before, after = (str(copies[key] / START) for key in ("plain", "migrate"))
    words = [*_SHARDLIFT, "verify", "--quiet", before, after, VERIFIED_STEPS]
    done = _run(words, copies["plain"].parent, search=[])
    if done is None:
        return f"not done in {TIMEOUT:.0f} s"
    summary = re.match(r".*\b(\d+ sites?: .*)", " ".join(done.stdout.split()))  # it is wrapped
    return summary[1][:300] if summary else _last_line(done)


def _execute(words: Sequence[str], folder: Path) -> Outcome:
    start = time.monotonic()
    done = _run(words, folder, search=[str(folder), str(folder.parent)])
    if done is None:
        return Outcome(error=f"not done in {TIMEOUT:.0f} s", seconds=TIMEOUT)
    return outcome(done, round(time.monotonic() - start, 1))


def _run(
    words: Sequence[str], folder: Path, search: Sequence[str]
) -> subprocess.CompletedProcess[str] | None:
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "4"}
    env["JAX_TRACEBACK_FILTERING"] = "off"  # so that the last line is the error
    places = [*search, env.get("PYTHONPATH", "")]
    env["PYTHONPATH"] = os.pathsep.join(place for place in places if place)
    try:
        return subprocess.run(
            words, cwd=folder, env=env, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return None


def outcome(done: subprocess.CompletedProcess[str], seconds: float) -> Outcome:
    """Counts of pytest's last line, or the status of another program."""
    last = _last_line(done)
    if "pytest" in done.args:
        counts = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error)", last)}
        passed = counts.get("passed", 0)
        failed = counts.get("failed", 0) + counts.get("error", 0)
        errors = re.findall(r"^E\s+(\S.*)", done.stdout, re.M)
        return Outcome(passed, failed, "" if passed else (errors or [last])[-1][:300], seconds)
    steps = re.findall(r"^step_ms ([\d.]+)$", done.stdout, re.M)
    fine = done.returncode == 0
    step_ms = float(steps[-1]) if steps else 0.0
    return Outcome(int(fine), int(not fine), "" if fine else last, seconds, step_ms)


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    text = done.stdout if "pytest" in done.args else done.stdout + done.stderr
    plain = re.sub(r"\x1b\[[\d;]*m", "", text)  # some settings ask for colours
    return (plain.strip().splitlines() or ["no output"])[-1][:300]
