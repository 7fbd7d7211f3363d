"""Legacy programs of many forms, migrated and executed: the same bits before and after."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from shardlift.check.engine import check_texts
from shardlift.facts import Capture
from shardlift.rewrite.engine import migrate
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.results import Migration
from shardlift.source.settings import Settings
from tests import children, shared
from tests.rewrite.captures import all_proven, dated
from tests.rewrite.programs import PROGRAMS

# A tree that is put on every device whole, by `--to global`.
PLACED = re.compile(r"device_put\(\s*jax\.tree\.map\(\s*(lambda x: )?[\w.]*(copy|array)\b")

RUNNER = Path(__file__).with_name("run_programs.py")


def migrated(
    files: Mapping[str, str],
    root: str = "/p",
    goal: Goal = Goal.SHARD_MAP,
    facts: Capture | None = None,
    settings: Settings = Settings(),
) -> tuple[dict[str, str], Migration]:
    """The files of a program after its migration, helpers included.

    Without `facts`, targets that need them are given those of a run that proved all outputs.
    """
    if facts is None and goal in (Goal.GLOBAL, Goal.JIT):
        facts = all_proven(files)
    contents = {f"{root}/{path}": text.encode() for path, text in files.items()}
    captures = dated(facts, {f"{root}/{path}": text for path, text in files.items()})
    exists = _exists(contents)
    result = migrate(list(contents), contents.__getitem__, exists, goal, None, captures, settings)
    after = {path: text.decode() for path, text in contents.items()}
    after |= {file.path: file.after for file in result.changed}
    return {path.removeprefix(f"{root}/"): text for path, text in after.items()}, result


def _exists(contents: Mapping[str, bytes]):  # type: ignore[no-untyped-def]
    folders = {str(parent) for path in contents for parent in Path(path).parents}
    return lambda path: path in contents or path in folders


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    return shared.once("migrate programs", lambda: _run(tmp_path_factory.mktemp("programs")))


def _run(root: Path) -> dict[str, str | None]:
    for name, files in PROGRAMS.items():
        for phase, texts in (("before", files), ("after", migrated(files)[0])):
            for path, text in texts.items():
                target = root / name / phase / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text)
    environment = children.plain_environment(JAX_NUM_CPU_DEVICES="8", JAX_PLATFORMS="cpu")
    done = children.run(
        [sys.executable, str(RUNNER), str(root)],
        env=environment,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, str | None] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_same_bits_before_and_after(name: str, verdicts: dict[str, str | None]) -> None:
    assert verdicts[name] is None, verdicts[name]


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_refused_and_nothing_of_shardlift_is_left(name: str) -> None:
    after, result = migrated(PROGRAMS[name])
    assert [file.refused for file in result.files if file.refused] == []
    assert not result.unreadable
    for text in after.values():
        ast.parse(text)
        assert "shardlift" not in text
        assert "jax.pmap(" not in text


@pytest.mark.parametrize("name", PROGRAMS)
def test_check_finds_no_pmap_in_what_was_rewritten(name: str) -> None:
    after, _ = migrated(PROGRAMS[name])
    codes = [finding.code for report in check_texts(after).values() for finding in report.findings]
    assert [code for code in codes if code.startswith("SL2")] == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_second_run_changes_nothing(name: str) -> None:
    after, _ = migrated(PROGRAMS[name])
    again, result = migrated(after)
    assert again == after
    assert result.changed == ()
