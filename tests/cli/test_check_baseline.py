"""`shardlift check` with a baseline: only new findings count."""

import json
import re
from pathlib import Path

import pytest

from shardlift.cli.check_baseline import NAME
from tests.cli.commands import check

SITE = "step = jax.pmap(train)\n"
PMAP = f"import jax\n\n{SITE}"


def _notebook(*sources: str) -> str:
    return json.dumps({"cells": [{"cell_type": "code", "source": text} for text in sources]})


FILES = {"pyproject.toml": "[tool.shardlift]\n", "src/train.py": PMAP}


def test_known_findings_do_not_count(project: Path) -> None:
    written = check("--write-baseline")
    assert written.exit_code == 0
    assert f"1 known finding in {NAME}." in written.output
    result = check()
    assert result.exit_code == 0
    assert f"1 known finding in {NAME} (--no-baseline shows them)." in result.output
    assert check("--no-baseline").exit_code == 1
    assert "contradicts" in check("--no-baseline", "--write-baseline").output


@pytest.mark.parametrize(
    ("name", "text", "new"),
    [
        ("train.py", f"import jax\n\n\nx = 1\nif x:\n    {SITE}", []),  # the line has moved
        ("train.py", f"{PMAP}other = jax.pmap(evaluate)\n", ["src/train.py:4"]),
        ("train.py", PMAP + SITE, ["src/train.py:4"]),  # the same line once more
        ("train.py", PMAP.replace("(train)", "(train, 'i')"), ["src/train.py:3"]),
        ("other.py", PMAP, ["src/other.py:3"]),
        ("n.ipynb", _notebook("x = 1", PMAP), []),
    ],
)
def test_new_findings_count(project: Path, name: str, text: str, new: list[str]) -> None:
    (project / "src" / "n.ipynb").write_text(_notebook(PMAP))
    check("--write-baseline")
    (project / "src" / name).write_text(text)
    result = check("-q")
    assert re.findall(r"^\S+?:\d+", result.output, re.MULTILINE) == new
    assert result.exit_code == bool(new)


def test_the_baseline_does_not_depend_on_the_current_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check("--write-baseline")
    monkeypatch.chdir(project / "src")
    assert [check(*paths).exit_code for paths in ((), ("train.py",), (str(project),))] == [0] * 3


def test_fixed_findings_are_counted_and_removed_by_writing_again(project: Path) -> None:
    check("--write-baseline")
    (project / "src" / "train.py").write_text("import jax\n")
    assert "1 finding of shardlift-baseline.json fixed: --write-baseline" in check().output
    assert "0 known findings" in check("--write-baseline").output
    assert json.loads((project / NAME).read_text())["findings"] == {}


def test_what_was_not_checked_stays_in_the_baseline(project: Path) -> None:
    (project / "src" / "other.py").write_text(PMAP + "jax.tree_map(f, x)\n")
    check("--write-baseline")
    assert "fixed" not in check("src/train.py").output
    assert "fixed" not in check("--select", "SL1").output
    check("src/train.py", "--write-baseline")
    check("--select", "SL1", "--write-baseline")
    findings = json.loads((project / NAME).read_text())["findings"]
    assert [entry["code"] for entry in findings["src/other.py"]] == ["SL105", "SL201"]
    (project / "src" / "other.py").unlink()
    check("--write-baseline")
    assert list(json.loads((project / NAME).read_text())["findings"]) == ["src/train.py"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 2}', '{"version": 1, "findings": []}', "[" * 100_000]
)
def test_a_file_that_is_no_baseline_exits_2(project: Path, text: str) -> None:
    (project / NAME).write_text(text)
    result = check()
    assert result.exit_code == 2
    assert NAME in result.output


def test_files_that_cannot_be_read_are_named_and_stay_known(project: Path) -> None:
    check("--write-baseline")
    (project / "src" / "train.py").write_text("print 'pmap'\n")
    result = check("--write-baseline")
    assert result.exit_code == 2
    assert "NOT looked at: src/train.py" in result.output
    assert "src/train.py" in (project / NAME).read_text()


def test_the_formats_for_machines_have_new_findings_only(project: Path) -> None:
    check("--write-baseline")
    (project / "src" / "train.py").write_text(PMAP + SITE)
    document = json.loads(check("--format", "json").output)
    assert (len(document["left"]), document["in_baseline"]) == (1, 1)
    assert len(json.loads(check("--format", "sarif").output)["runs"][0]["results"]) == 1


def test_a_link_out_of_the_project_is_replaced(project: Path) -> None:
    victim = project.parent / "victim.json"
    victim.write_text('{"version": 1, "findings": {}}')
    (project / NAME).symlink_to(victim)
    assert check("--write-baseline").exit_code == 0
    assert victim.read_text() == '{"version": 1, "findings": {}}'
    assert not (project / NAME).is_symlink()
