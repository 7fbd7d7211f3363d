"""`shardlift status`: how far a migration is."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from shardlift.capture.schema import SiteKind
from shardlift.cli import main
from shardlift.cli.verified import digests_of
from shardlift.verify.compare.verdicts import Outcome, Place, Side, SiteVerdict, Verdict
from shardlift.verify.verdict_text import machine
from tests import children

LEFT = "import jax\n\nstep = jax.pmap(lambda x: x)\n"
MIGRATED = "import jax\n\nstep = jax.jit(jax.shard_map(\n    lambda x: x, mesh=m, in_specs=s))\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for path, text in {
        "pyproject.toml": '[tool.shardlift]\nverified = ["verified/*.json"]\n',
        "src/a/train.py": LEFT,
        "src/a/sample.py": MIGRATED,
        "src/b/train.py": MIGRATED,
        "src/b/plain.py": "x = 1\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["status", *arguments], catch_exceptions=False)


def _counts(*arguments: str) -> Any:
    return json.loads(_run(*arguments, "--json").output)


def _verify(path: str, line: int, verdict: Verdict = Verdict.IDENTICAL) -> str:
    """What `shardlift verify --format json` prints."""
    before = Place("old.py", 1, "f", SiteKind.PMAP, 3)
    after = Place(path, line, "f", SiteKind.SHARD_MAP, 3)
    sides = Side("before"), Side("after")
    outcome = Outcome(*sides, (SiteVerdict(verdict, before, after, calls=3),))
    return machine(outcome, digests_of([path]))


def test_sites_are_counted_by_folder(project: Path) -> None:
    result = _run()
    assert result.exit_code == 0
    rows = [line.split() for line in result.output.splitlines()]
    assert rows[:4] == [
        ["folder", "left", "migrated", "verified"],
        ["src/a", "1", "1", "0"],
        ["src/b", "0", "1", "0"],
        ["total", "1", "2", "0"],
    ]
    assert "2 of 3 sites migrated (67 %), 0 verified." in result.output


def test_json_has_the_same_numbers(project: Path) -> None:
    document = _counts()
    assert (document["left"], document["migrated"], document["verified"]) == (1, 2, 0)
    assert document["folders"]["src/a"]["share"] == 0.5
    assert _run("--format", "json").output == _run("--json").output


@pytest.mark.parametrize("line", [3, 4])
def test_a_verified_site_counts_while_its_file_stays_as_it_was(project: Path, line: int) -> None:
    (project / "v.json").write_text(_verify("src/b/train.py", line))
    assert _counts("--verified", "v.json")["folders"]["src/b"]["verified"] == 1
    (project / "src/b/train.py").write_text(MIGRATED + "x = 1\n")
    changed = _run("--verified", "v.json")
    assert "src/b/train.py has changed since it was verified" in changed.output
    assert _counts("--verified", "v.json")["verified"] == 0


@pytest.mark.parametrize(
    ("line", "verdict", "verified"),
    [
        (3, Verdict.CLOSE, 1),
        (3, Verdict.DIFFERENT, 0),
        (3, Verdict.NOT_REACHED, 0),
        (1, Verdict.IDENTICAL, 0),  # another site
    ],
)
def test_only_the_same_numbers_at_this_site_verify_it(
    project: Path, line: int, verdict: Verdict, verified: int
) -> None:
    (project / "v.json").write_text(_verify("src/b/train.py", line, verdict))
    assert _counts("--verified", "v.json")["verified"] == verified


def test_the_configuration_names_the_files(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "verified").mkdir()
    (project / "verified" / "b.json").write_text(_verify("src/b/train.py", 3))
    assert _counts()["verified"] == 1
    monkeypatch.chdir(project / "src")
    assert _counts("b")["verified"] == 1


@pytest.mark.parametrize("text", ["", "[]", "{}", "{}{", '{"verify": []}', '{"sites": []}', "\xff"])
def test_a_file_that_verify_did_not_write_exits_2(project: Path, text: str) -> None:
    (project / "v.json").write_bytes(text.encode("latin-1"))
    result = _run("--verified", "v.json")
    assert result.exit_code == 2
    assert "v.json is not what `shardlift verify` or `shardlift migrate --verify`" in result.output
    assert _run("--verified", "nowhere.json").exit_code == 2


def test_the_badges(project: Path) -> None:
    assert json.loads(_run("--format", "shields").output) == {
        "schemaVersion": 1,
        "label": "off pmap",
        "message": "67 %",
        "color": "yellow",
    }
    texts = list(ET.fromstring(_run("--format", "svg").output).itertext())
    assert "67 %" in texts
    assert "brightgreen" in _run("src/b", "--format", "shields").output
    (project / "src/a/sample.py").unlink()
    assert '"0 %", "color": "red"' in _run("src/a", "--format", "shields").output


def test_a_project_without_sites(project: Path) -> None:
    result = _run("src/b/plain.py")
    assert result.exit_code == 0
    assert "There is no pmap site" in result.output
    assert (
        '"no pmap", "color": "brightgreen"' in _run("src/b/plain.py", "--format", "shields").output
    )


def test_a_file_that_does_not_parse_is_named(project: Path) -> None:
    (project / "src/b/old.py").write_text("print 'pmap shard_map'\n")
    result = _run()
    assert result.exit_code == 2
    assert "NOT looked at: src/b/old.py" in result.output
    assert _run("nowhere").exit_code == 2


PROGRAM = """\
import jax
import numpy as np

step = jax.pmap(lambda x: jax.lax.psum(x, "i"), axis_name="i")
print(step(np.arange(jax.device_count())))
"""


@pytest.mark.slow
@pytest.mark.exhaustive
def test_migrate_verify_status(project: Path) -> None:
    for folder in ("before", "after"):
        (project / folder).mkdir()
        (project / folder / "train.py").write_text(PROGRAM)
    run = [sys.executable, "-m", "shardlift"]
    migrate = ["migrate", "after", "--write", "--allow-dirty", "--format", "json"]
    command = ["--verify", "python after/train.py", "--devices", "2"]
    done = children.run([*run, *migrate, *command], cwd=project, check=True)
    (project / "m.json").write_text(done.stdout)
    assert _counts("after")["verified"] == 0
    assert _counts("after", "--verified", "m.json")["verified"] == 1
    both = ["before/train.py", "after/train.py"]
    done = children.run([*run, "verify", *both, "--format", "json"], cwd=project, check=True)
    (project / "v.json").write_text(done.stdout)
    assert _counts("after", "--verified", "v.json")["verified"] == 1
