"""Lines of changed files whose comments and strings still speak of pmap, for a person to read."""

from __future__ import annotations

import io
import re
import tokenize
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
    old = set(split_lines(file.before))  # not the lines of a helper that is new
    lines = split_lines(file.after)
    for token in tokenize.generate_tokens(io.StringIO(file.after, newline="").readline):
        if token.type != tokenize.NAME:
            for match in _PMAP.finditer(token.string):
                number = token.start[0] + token.string.count("\n", 0, match.start())
                if lines[number - 1] in old:
                    yield Leftover(file.path, number, lines[number - 1].strip()[:_LONGEST])
