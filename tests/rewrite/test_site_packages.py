"""Real files that nobody wrote for us: what is written is Python, and the other lines stay."""

import ast
import os
import sysconfig
import warnings
from itertools import pairwise
from pathlib import Path

import pytest

from shardlift.rewrite.engine import migrate
from shardlift.rewrite.results import FileResult, Migration
from shardlift.source.edits import line_starts


def _files() -> list[str]:
    paths = sysconfig.get_paths()
    folders = {paths["purelib"], paths["platlib"]}
    found = sorted({str(path) for folder in folders for path in Path(folder).rglob("*.py")})
    return [path for path in found if b"jax" in Path(path).read_bytes()]


def _check(result: Migration) -> None:
    for file in result.changed:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(file.after)
            assert _lost_line(file) is None
    new = {file.path: file.after.encode() for file in result.changed}
    again = migrate(
        list(new),
        lambda path: new[path] if path in new else Path(path).read_bytes(),
        lambda path: path in new or os.path.exists(path),
    )
    assert [file.path for file in again.changed] == []


def _lost_line(file: FileResult) -> str | None:
    """A line that is neither part of what was rewritten nor an import, and is not there any more.

    The lines that stay have to be there in their order.
    """
    touched = _touched(file)
    after = iter(_lines(file.after))
    for number, line in enumerate(_lines(file.before), start=1):
        if number not in touched and line.strip() and not any(line == other for other in after):
            return f"{file.path}:{number}: {line}"
    return None


def _touched(file: FileResult) -> set[int]:
    found: set[int] = set()
    for place in file.rewritten:
        found |= set(range(place.span.line, place.span.end_line + 1))
    for node in ast.walk(ast.parse(file.before)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    for number, line in reversed(list(enumerate(_lines(file.before), start=1))):
        if number + 1 in found and line.lstrip().startswith("#"):
            found.add(number)  # a comment goes with the statement below it
    return found


def _lines(text: str) -> list[str]:
    starts = [*line_starts(text), len(text)]
    return [text[a:b].rstrip("\r\n") for a, b in pairwise(starts)]


@pytest.mark.slow
def test_every_installed_file_that_mentions_jax() -> None:
    files = _files()
    result = migrate(files, lambda path: Path(path).read_bytes(), os.path.exists)
    assert not [path for path, reason in result.unreadable if "deeply" in reason]
    assert result.looked_at == len(files)
    _check(result)
