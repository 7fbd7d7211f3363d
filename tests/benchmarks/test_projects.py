"""`python -m bench.projects`: what it counts, the page, and that the project is only read."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from bench.projects.__main__ import main
from bench.projects.page import page
from bench.projects.programs import run_programs
from bench.projects.row import measure

TRAIN = """import os
import jax
import no_such_library
from jax import tree_multimap

step = jax.pmap(lambda x: x + 1, axis_name="i")
copies = jax.device_put_replicated(1, jax.devices())
out = step(copies)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "owner+proj"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg/__init__.py").write_text("")
    (folder / "pkg/train.py").write_text(TRAIN)
    (folder / "train.py").write_text("import pkg.train\n")
    (folder / "pyproject.toml").write_text('[tool.ruff]\nlint.select = ["F"]\n[tool.isort]\n')
    return folder


@pytest.mark.usefixtures("many_sites")
def test_a_project_is_measured_and_not_changed(project: Path) -> None:
    row = measure(project)
    assert row["failure"] == ""
    assert (row["project"], row["kind"], row["sites"]) == ("owner/proj", "library", 1)
    assert row["options"] == {"axis_name": 1}
    assert row["fix"]["sites"] == 0
    assert row["fix"]["places"] >= 2  # tree_multimap, device_put_replicated
    assert row["migrate"]["sites"] == 1
    assert row["migrate"]["unresolved"] == []
    before, after = row["migrate"]["findings"]["ruff"]
    assert before >= after > 0  # `os` is not used
    assert (project / "pkg/train.py").read_text() == TRAIN
    assert "<script>alert" not in page([row | {"project": "<script>alert(1)</script>"}])


TESTS = """import jax
def test_a(): assert jax.device_put_replicated(1, jax.devices()).shape == (4,)
def test_b(): assert jax.local_device_count() == 4
"""
STARTER = """import sys
import numpy as np
from pkg.train import step
for _ in range(int(sys.argv[1])): step(np.ones(4))
print('step_ms 1.5')
"""


@pytest.mark.slow
def test_own_tests_and_starters_are_run_as_they_are_and_after_each_rewrite(
    project: Path, tmp_path: Path
) -> None:
    (project / "pkg/train.py").write_text("import jax\nstep = jax.pmap(lambda x: x + 1)\n")
    (project / "pkg/train_test.py").write_text(TESTS)
    starter = tmp_path / "owner+proj.py"
    starter.write_text(STARTER)
    (tested,), (started,) = run_programs(project), run_programs(project, [starter])
    outcomes = [tested.plain, tested.run, tested.fix, tested.migrate]
    assert [(o.passed, o.failed) for o in outcomes] == [(1, 1), (2, 0), (2, 0), (2, 0)]
    outcomes = [started.plain, started.run, started.fix, started.migrate]
    assert [outcome.passed for outcome in outcomes] == [1, 1, 1, 1]
    assert started.speed == 1.0
    assert started.verified.startswith("1 site: 1 identical")
    text = page([measure(project) | {"programs": [asdict(started)]}])
    assert "in 1 every site that ran is identical" in text
    assert "1/1/1/1" in text


def test_a_run_goes_on_with_what_a_row_lacks(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(project), "--out", str(tmp_path / "out"), "--jobs", "1"]
    main(arguments)
    assert "1 of 1: owner/proj: 1 sites" in capsys.readouterr().err
    main(arguments)
    assert "of 1" not in capsys.readouterr().err  # it is there
    main([*arguments, "--execute"])
    assert "of 1" in capsys.readouterr().err
    main([*arguments, "--again"])
    row = json.loads((tmp_path / "out/rows.json").read_text())["owner/proj"]
    assert row["programs"] == []  # kept: it was not asked for again
    assert "1 project, 1 place where" in (tmp_path / "out/index.html").read_text()
