"""`shardlift report` as a person runs it."""

import json
import sys
from pathlib import Path

import pytest

from shardlift.capture.schema import Capture
from shardlift.facts import write
from tests import children
from tests.capture.captures import everything, process, site
from tests.cli.commands import report


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(everything(), "run.json")
    write(Capture(processes=(process(),), sites=(site(),)), "fine.json")
    return tmp_path


def test_something_to_decide_exits_1(folder: Path) -> None:
    result = report("run.json")
    assert result.exit_code == 1
    assert result.output.startswith("2 pmap sites; ")
    assert json.loads(report("run.json", "--format", "json").output)["decisions"] == 1
    assert report("run.json", "-q").output.count("\n") == 1
    assert report("fine.json").exit_code == 0


def test_html(folder: Path) -> None:
    result = report("run.json", "--html", "out.html", "-q")
    assert result.exit_code == 1
    assert "wrote out.html" in result.output
    assert (folder / "out.html").read_text().startswith("<!doctype html>")
    result = report("run.json", "--html", "no/where.html")
    assert result.exit_code == 2
    assert "no/where.html cannot be written" in result.output


@pytest.mark.slow
def test_places_in_a_notebook_are_cells_and_lines(tmp_path: Path) -> None:
    """In what `run` records of it, in the report, and where `verify` compares it."""
    cells = [
        "import jax\nx = jax.numpy.ones((8, 1))",
        "# two\nf = jax.pmap(lambda x: x)",
        "f(x)[0]",
    ]
    document = {"cells": [{"cell_type": "code", "source": text} for text in cells]}
    (tmp_path / "a.ipynb").write_text(json.dumps(document))
    ours = [sys.executable, "-m", "shardlift"]
    recording = ["run", "--devices", "8", "--record", "run.json", "--record-inputs", "1000"]
    children.run([*ours, *recording, "a.ipynb"], cwd=tmp_path, check=True)
    shown = children.run([*ours, "report", "run.json"], cwd=tmp_path).stdout
    assert "a.ipynb:cell 2:2" in shown
    assert "(a.ipynb:cell 3:1)" in shown
    verdict = children.run([*ours, "verify", "run.json", "run.json"], cwd=tmp_path).stdout
    assert "a.ipynb:cell 2:2 (pmap) -> a.ipynb:cell 2:2 (pmap)" in verdict
