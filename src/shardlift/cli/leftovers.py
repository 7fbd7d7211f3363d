"""Lines of changed files whose comments and strings still speak of pmap, for a person to read."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from shardlift.rewrite.results import FileResult, Migration
from shardlift.source.edits import split_lines
from shardlift.source.model import Kind

_PMAP = re.compile(r"\bpmap(?:ped|ping|s)?\b")
_LONGEST = 200  # characters of a line


class Leftover(NamedTuple):
    """One line."""

    path: str
    line: int
    text: str


def find_leftovers(migration: Migration) -> list[Leftover]:
    """What comments and strings still say of pmap where it is gone."""
    return [leftover for file in migration.files for leftover in _leftovers_in(file)]


def _leftovers_in(file: FileResult) -> Iterator[Leftover]:
    kinds = {change.kind for change in file.rewritten}
    if not file.path.endswith(".py") or not kinds & {Kind.SITE, Kind.VALUE, Kind.DEVICE_AXIS}:
        return
    named = set(_lines_with_names(ast.parse(file.after)))
    old = set(split_lines(file.before))  # not the lines of a helper that is new
    for number, line in enumerate(split_lines(file.after), start=1):
        if line in old and _PMAP.search(line) and number not in named:
            yield Leftover(file.path, number, line.strip()[:_LONGEST])


def _lines_with_names(tree: ast.Module) -> Iterator[int]:
    """The lines where code, not a comment or a string, has a name such as pmap."""
    for node in ast.walk(tree):
        parts = (getattr(node, field, None) for field in ("id", "attr", "name", "arg"))
        if any(isinstance(part, str) and _PMAP.search(part) for part in parts):
            yield getattr(node, "end_lineno" if isinstance(node, ast.Attribute) else "lineno")
