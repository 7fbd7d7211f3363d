"""A value that can be reached without its name keeps its device axis: the program prints the same.

Each program of `dynamic_programs` is recorded, migrated with `--to global` and run again.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from shardlift.migrate.goal import Goal
from tests import children
from tests.migrate.device_axis.dynamic_programs import HEAD, KINDS, controls, programs
from tests.migrate.test_programs import PLACED, migrated

RUNNER = Path(__file__).with_name("run_dynamic.py")


def _verdicts(files: Mapping[str, Mapping[str, str]], folder: Path) -> dict[str, Any]:
    """What came of each program, all run in one process."""
    (folder / "programs.json").write_text(json.dumps(files))
    environment = children.plain_environment(JAX_NUM_CPU_DEVICES="8", JAX_PLATFORMS="cpu")
    environment["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    paths = [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    command = [sys.executable, str(RUNNER), str(folder / "programs.json"), str(folder)]
    done = children.run(command, env=environment, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _are_the_same(found: dict[str, Any]) -> None:
    wrong = {name: one["wrong"] for name, one in found.items() if one["wrong"]}
    shown = "\n".join(f"== {name}\n{text}" for name, text in list(wrong.items())[:3])
    assert not wrong, f"{len(wrong)} of {len(found)}\n{shown}"


@pytest.mark.slow
def test_every_way_to_reach_a_name(tmp_path: Path) -> None:
    """Some of the ways; and without one, every kind of value loses its axis."""
    some = dict(list(programs().items())[::23])
    found = _verdicts({**controls(), **some}, tmp_path)
    _are_the_same(found)
    assert all(found[name]["whole"] for name in controls())


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", [*KINDS, "object"])
def test_every_way_with_every_kind_of_value(kind: str, tmp_path: Path) -> None:
    mine = {name: files for name, files in programs().items() if name.startswith(f"{kind},")}
    found = _verdicts(mine, tmp_path)
    assert len(found) > 10
    _are_the_same(found)


def _reasons(files: Mapping[str, str]) -> list[str]:
    _, result = migrated(files, goal=Goal.GLOBAL)
    return [change.reason for file in result.files for change in file.refused]


@pytest.mark.parametrize("kind", ["array", "argument", "attribute", "pmapped function"])
@pytest.mark.parametrize("name", ["globals()", "eval", "sys.modules", "a frame"])
def test_the_reason_names_the_line(kind: str, name: str) -> None:
    files = programs()[f"{kind}, {name}"]
    lines = files["main.py"].splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.startswith("got ="))
    reasons = _reasons(files)
    assert any(f"/p/main.py:{line}" in reason for reason in reasons), reasons


READERS = {
    "another name by globals()": 'globals()["rows"]',
    "another name of the module": "import sys\nsys.modules[__name__].rows",
    "another module by importlib": 'import importlib\nimportlib.import_module("other")',
    "another package by a prefix": 'import importlib\nimportlib.import_module(f"configs.{rows}")',
    "the name of a class": "print(rows.__class__.__name__)",
    "a module that is only imported": "import importlib\nimportlib.import_module(rows)",
    "literal_eval": 'import ast\nast.literal_eval("[1]")',
    "exec of a version": 'names = {}\nexec("version = 3", names)\nprint(names["version"])',
    "exec of a file": 'names = {}\nexec(open("version.py").read(), names)\nprint(names["rows"])',
    "a type test": "print(isinstance(rows, str))",
    "a local namespace": "def other():\n    return locals()",
    "import * of another module": "from other import *",
    "a module of a library": 'getattr(np, "zeros")',
}


@pytest.mark.parametrize("name", READERS)
def test_what_reaches_something_else_changes_nothing(name: str) -> None:
    files = {"main.py": f"{HEAD}{KINDS['array'].text}{READERS[name]}\n", "other.py": "rows = 3\n"}
    assert PLACED.search(migrated(files, goal=Goal.GLOBAL)[0]["main.py"])


@pytest.mark.parametrize(
    ("line", "is_whole"),
    [
        ('"ipykernel" in sys.modules', True),
        ('"ipykernel" not in sys.modules', True),
        ('importlib.import_module("main")', False),
        ('sys.modules["main"]', False),
        ("sys.modules == {}", False),
    ],
)
def test_asking_whether_a_module_is_there_reaches_nothing(line: str, is_whole: bool) -> None:
    text = (
        "import importlib\nimport sys\nimport jax\n\n"
        'p_mean = jax.pmap(lambda x: jax.lax.pmean(x, "i"), axis_name="i")\n'
        "means = p_mean(jax.device_put_replicated(1.0, jax.local_devices()))\n"
        f"print(jax.tree.map(lambda x: x[0], means), {line})\n"
    )
    after, _ = migrated({"main.py": text}, goal=Goal.GLOBAL)
    assert bool(PLACED.search(after["main.py"])) == is_whole
