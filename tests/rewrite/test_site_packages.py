"""Real files that nobody wrote for us; all of them, and how long it takes, are in bench/."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

import pytest

from shardlift.rewrite.engine import migrate
from shardlift.rewrite.results import Migration
from tests.rewrite.properties import lost_line, parses


def _files() -> list[str]:
    paths = sysconfig.get_paths()
    folders = {paths["purelib"], paths["platlib"]}
    found = sorted({str(path) for folder in folders for path in Path(folder).rglob("*.py")})
    return [path for path in found if b"jax" in Path(path).read_bytes()]


def _check(result: Migration) -> None:
    for file in result.changed:
        assert parses(file), file.path
        assert lost_line(file) is None
    new = {file.path: file.after.encode() for file in result.changed}
    again = migrate(
        list(new),
        lambda path: new[path] if path in new else Path(path).read_bytes(),
        lambda path: path in new or os.path.exists(path),
    )
    assert [file.path for file in again.changed] == []


@pytest.mark.slow
def test_every_installed_file_that_mentions_jax() -> None:
    files = _files()
    result = migrate(files, lambda path: Path(path).read_bytes(), os.path.exists)
    assert not [path for path, reason in result.unreadable if "deeply" in reason]
    assert result.looked_at == len(files)
    _check(result)
