"""`shardlift status`: how far a migration is."""

import json
from pathlib import Path
from typing import Any

import pytest

from shardlift.rewrite.engine import migrate
from shardlift.rewrite.goal import Goal
from tests.cli.commands import status

LEFT = "import jax\n\nstep = jax.pmap(lambda x: jax.tree_map(abs, x))\n"
MIGRATED = "import jax\n\nstep = jax.jit(jax.shard_map(\n    lambda x: x, mesh=m, in_specs=s))\n"
PROGRAM = """\
import functools
import jax

@functools.partial(jax.pmap, axis_name="i")
def step(x):
    return jax.lax.psum(x, "i")

evaluate = jax.pmap(lambda x: x)
"""
FILES = {
    "src/a/train.py": LEFT,
    "src/a/sample.py": MIGRATED,
    "src/b/train.py": MIGRATED,
    "src/b/plain.py": "x = 1\n",
}


def _counts(*arguments: str) -> Any:
    return json.loads(status(*arguments, "--format", "json").output)


def test_sites_and_findings_are_counted_by_folder(project: Path) -> None:
    result = status()
    assert result.exit_code == 0
    rows = [line.split() for line in result.output.splitlines()]
    assert rows[:4] == [
        ["folder", "pmap", "migrated", "broken", "slow"],
        ["src/a", "1", "1", "1", "0"],
        ["src/b", "0", "1", "0", "0"],
        ["total", "1", "2", "1", "0"],
    ]
    assert "2 of 3 sites migrated (67 %)." in result.output
    assert "Next: shardlift check" in result.output
    document = _counts()
    assert (document["pmap"], document["migrated"], document["broken"]) == (1, 2, 1)
    assert document["folders"]["src/b"] == {"pmap": 0, "migrated": 1, "broken": 0, "slow": 0}
    result = status("src/b/plain.py")
    assert result.exit_code == 0
    assert result.output == "There is no pmap site, and no shard_map site.\n"


@pytest.mark.parametrize("goal", [Goal.SHARD_MAP, Goal.GLOBAL])
@pytest.mark.parametrize("name", ["train.py", "pkg/train.py"])  # helpers in the file, or beside it
def test_every_rewritten_site_counts_and_no_helper_does(
    tmp_path: Path, goal: Goal, name: str
) -> None:
    texts = {name: PROGRAM} | ({"pkg/__init__.py": ""} if "/" in name else {})
    contents = {path: text.encode() for path, text in texts.items()}
    result = migrate(list(texts), contents.__getitem__, contents.__contains__, goal)
    for path, text in (texts | {file.path: file.after for file in result.changed}).items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    counts = _counts(str(tmp_path))
    assert (counts["pmap"], counts["migrated"]) == (0, 2)


def test_a_file_that_does_not_parse_is_named(project: Path) -> None:
    (project / "src/b/old.py").write_text("print 'pmap shard_map'\n")
    result = status()
    assert result.exit_code == 2
    assert "NOT looked at: src/b/old.py" in result.output
    assert status("nowhere").exit_code == 2
