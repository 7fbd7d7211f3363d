"""`--to global`: programs recorded, migrated and run again: the same bits."""

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from shardlift.check.engine import check_texts
from shardlift.rewrite.goal import Goal
from tests import shared
from tests.rewrite.programs import PROGRAMS
from tests.rewrite.run_programs import result_of, write_files
from tests.rewrite.test_programs import migrated
from tests.rewrite.training_programs import GLOBAL, PARTLY, STACKED

LEGACY = Path(__file__).parents[1] / "legacy" / "programs"
MAIN = """\
import os
import runpy


def main():
    path = os.path.join(os.path.dirname(__file__), "program.py")
    return runpy.run_path(path, run_name="__main__")["RESULTS"]
"""
GUARD = '\n\nif __name__ == "__main__":\n    main()\n'
# Programs of tests/legacy that change; the others stay as `--to shard_map` has them.
CHANGED = ("data_parallel",)
KEPT = {name: files for name, (_, files) in {**PARTLY, **STACKED}.items()}
ALL = {**GLOBAL, **KEPT}


def _programs() -> dict[str, Mapping[str, str]]:
    found: dict[str, Mapping[str, str]] = {}
    for number, (name, files) in enumerate(ALL.items()):
        # Every other one is a script, which has its mesh in a variable.
        found[name] = {**files, "main.py": files["main.py"] + GUARD} if number % 2 else files
    for name in CHANGED:
        found[name] = {"main.py": MAIN, "program.py": (LEGACY / f"{name}.py").read_text()}
    return found


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return shared.once("migrate global", lambda: _run(tmp_path_factory.mktemp("programs")))


def _run(root: Path) -> dict[str, Any]:
    for name, files in _programs().items():
        write_files(root / name / "before", files)
    found: dict[str, Any] = result_of("run_global", root)
    return found


@pytest.mark.slow
def test_same_bits_before_and_after(verdicts: dict[str, Any]) -> None:
    """All in one test: a worker that has one program has run them all."""
    assert set(verdicts) == set(_programs())
    assert {name: one["wrong"] for name, one in verdicts.items() if one["wrong"]} == {}
    for name in GLOBAL:  # the state loses its axis
        found = verdicts[name]
        assert found["is_whole"], name
        assert [one for one in found["findings"] if "device axis" in one] == [], name


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PARTLY, *STACKED])
def test_what_keeps_its_axis_is_said_with_the_reason(name: str, verdicts: dict[str, Any]) -> None:
    reason, _ = {**PARTLY, **STACKED}[name]
    findings = verdicts[name]["findings"]
    assert any(reason in finding for finding in findings), findings
    assert verdicts[name]["is_whole"] == (name in PARTLY)


def test_programs_of_stacked_arrays_stay_as_shard_map_has_them() -> None:
    for name, files in PROGRAMS.items():
        after, _ = migrated(files, goal=Goal.GLOBAL)
        assert after == migrated(files)[0], name


@pytest.mark.parametrize("name", ALL)
def test_what_is_written_is_clean_and_final(name: str) -> None:
    after, migration = migrated(ALL[name], goal=Goal.GLOBAL)
    said = [change.reason for file in migration.files for change in file.refused]
    # What keeps its axis, the reason, and what to change by hand.
    assert [one for one in said if "keep" in one and one.count(": ") < 2] == []
    for text in after.values():
        ast.parse(text)
        assert "shardlift" not in text
    codes = [finding.code for report in check_texts(after).values() for finding in report.findings]
    assert said or [code for code in codes if code.startswith("SL2")] == []
    again, result = migrated(after, goal=Goal.GLOBAL)
    assert again == after
    assert result.changed == ()


def test_a_bare_decorator_gets_its_arguments_by_partial() -> None:
    text = (
        "import jax\nimport numpy as np\n\n\n@jax.pmap\ndef double(p, x):\n    return p * x\n\n\n"
        "p = jax.device_put_replicated(np.ones(3), jax.local_devices())\n"
        "print(double(p, np.ones((jax.local_device_count(), 3)))[0])\n"
    )
    after, _ = migrated({"m.py": text}, goal=Goal.GLOBAL)
    assert "@jax.jit\n@jax.shard_map(\n    mesh=mesh,\n" in after["m.py"]
    assert "@functools.partial(per_row_of, in_axes=(None, 0), out_axes=None)\n" in after["m.py"]
    named, _ = migrated({"m.py": f"from functools import partial\n{text}"}, goal=Goal.GLOBAL)
    assert "@partial(per_row_of, " in named["m.py"]
