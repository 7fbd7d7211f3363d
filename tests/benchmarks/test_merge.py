"""`python -m bench.merge`: what it counts, and that the project is only read."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from bench import merge, merge_tools

from shardlift.rewrite.home import Home
from shardlift.rewrite.results import FileResult
from shardlift.source.model import HelperRequest

TRAIN = "import os\nimport jax\n\nstep = jax.pmap(lambda x: x + 1)\nstep(jax.numpy.ones((1, 2)))\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "proj"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg/__init__.py").write_text("")
    (folder / "pkg/train.py").write_text(TRAIN)
    (folder / "train.py").write_text("import pkg.train\n")
    (folder / "pyproject.toml").write_text('[tool.ruff]\nlint.select = ["F"]\n[tool.isort]\n')
    return folder


def test_a_project_is_measured_and_not_changed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    isort = merge_tools.Tool("isort", "no-such-program", (), merge_tools._json_entries)
    monkeypatch.setitem(merge_tools.TOOLS, "isort", isort)
    figures = merge.measure(project, None, "python train.py")
    assert (figures.sites, figures.places, figures.refused, figures.copies) == (1, 1, 0, 1)
    assert figures.lines_per_place == 3  # the site, its import, a blank line
    assert 10 < figures.helper_lines < 60
    assert figures.unresolved == []
    assert figures.findings == {"ruff": (1, 1)}  # `os` is not used
    assert figures.not_run == ["isort"]
    assert figures.compilations is not None
    before, after = figures.compilations
    assert before is not None
    assert before == after
    assert (project / "pkg/train.py").read_text() == TRAIN
    assert not (project / "pkg/_spmd.py").exists()


def test_the_table_and_json(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    merge.main([str(project)])
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split()[:3] == ["project", "sites", "places"]
    assert row.split()[:4] == ["proj", "1", "1", "0"]
    merge.main([str(project), "--json"])
    (tree,) = json.loads(capsys.readouterr().out)
    assert (tree["project"], tree["lines_per_place"], tree["new_findings"]) == ("proj", 3.0, 0)


def test_an_import_that_leads_nowhere(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    (project / "pkg/_spmd.py").write_text("")
    before = "from pkg import other\n"
    (project / "pkg/other.py").write_text("")

    def result(module: str) -> FileResult:
        home = Home("pkg/_spmd.py", module, frozenset({"pkg"}))
        names = frozenset({HelperRequest("spmd_map")})
        return FileResult("pkg/train.py", before, "", helpers=names, home=home)

    assert merge.resolves(result("pkg._spmd"))
    assert merge.resolves(result("._spmd"))
    assert not merge.resolves(result("_spmd"))
    assert not merge.resolves(result(".._spmd"))
    assert not merge.resolves(result("proj._spmd"))
    before += 'if __name__ == "__main__":\n    other.main()\n'
    assert merge.resolves(result("_spmd"))


@pytest.mark.parametrize(
    ("file", "text", "names"),
    [
        ("setup.cfg", "[flake8]\n[yapf]\n", ["yapf", "flake8"]),
        ("setup.cfg", "[tool:pytest]\n", ["ruff F,E4,E7,E9"]),
        ("ruff.toml", "", ["ruff"]),
        ("pyproject.toml", "[tool.black]\n", ["black", "ruff F,E4,E7,E9"]),
        (".pre-commit-config.yaml", "- id: ruff\n- id: ruff-format\n", ["ruff", "ruff format"]),
        ("pyproject.toml", "not toml", ["ruff F,E4,E7,E9"]),
    ],
)
def test_the_tools_of_a_project(tmp_path: Path, file: str, text: str, names: list[str]) -> None:
    (tmp_path / file).write_text(text)
    assert [tool.name for tool in merge_tools.tools_of(tmp_path)] == names


def test_a_program_that_fails_has_no_compilations(tmp_path: Path) -> None:
    assert merge.compilations(f"{sys.executable} -c 'raise SystemExit(3)'", tmp_path) is None
