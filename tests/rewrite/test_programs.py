"""Legacy programs of many forms, migrated and executed: the same bits before and after."""

import ast
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from shardlift.facts import Capture
from shardlift.rewrite.engine import migrate
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.results import Migration
from shardlift.source.settings import Settings
from tests.rewrite.captures import all_proven, dated
from tests.rewrite.programs import KEPT, KEPT_BY_HELPER, PROGRAMS
from tests.rewrite.run_programs import result_of, write_files

# A tree that is put on every device whole, by `--to global`.
PLACED = re.compile(r"device_put\(\s*jax\.tree\.map\(\s*(lambda x: )?[\w.]*(copy|array)\b")


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
    captures = dated(facts, files)
    exists = _exists(contents)
    result = migrate(list(contents), contents.__getitem__, exists, goal, None, captures, settings)
    after = {path: text.decode() for path, text in contents.items()}
    after |= {file.path: file.after for file in result.changed}
    return {path.removeprefix(f"{root}/"): text for path, text in after.items()}, result


def _exists(contents: Mapping[str, bytes]):  # type: ignore[no-untyped-def]
    folders = {str(parent) for path in contents for parent in Path(path).parents}
    return lambda path: path in contents or path in folders


@pytest.fixture(params=["helper", "site"])
def form(request: pytest.FixtureRequest) -> str:
    """All programs as parts of a large project, or as scripts."""
    request.getfixturevalue("many_sites" if request.param == "helper" else "row_per_device")
    return str(request.param)


@pytest.mark.slow
def test_same_bits_before_and_after(form: str, tmp_path: Path) -> None:
    names = [name for name in PROGRAMS if (form, name) != ("site", "fewer rows than devices")]
    for name in names:
        for phase, texts in (("before", PROGRAMS[name]), ("after", migrated(PROGRAMS[name])[0])):
            write_files(tmp_path / name / phase, texts)
    verdicts = result_of("run_programs", tmp_path)
    assert {name: why for name, why in verdicts.items() if why} == {}
    assert verdicts.keys() == set(names)


def test_what_keeps_pmap_says_why(form: str) -> None:
    refused: set[str] = set()
    for name, files in PROGRAMS.items():
        after, result = migrated(files)
        assert not result.unreadable
        reasons = [change.reason for file in result.files for change in file.refused]
        assert all(reasons)
        refused |= {name} if reasons else set()
        assert reasons or not any("jax.pmap" in text for text in after.values()), name
    assert refused == KEPT.keys() | (KEPT_BY_HELPER if form == "helper" else {})


def test_a_second_run_changes_nothing(form: str) -> None:
    for files in PROGRAMS.values():
        after, _ = migrated(files)
        again, result = migrated(after)
        assert again == after
        assert result.changed == ()
        for text in after.values():
            ast.parse(text)
            assert "shardlift" not in text
