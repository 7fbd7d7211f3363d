"""Lines of changed files that still speak of pmap or of a device axis, for a person to read."""

import io
import re
import tokenize
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from shardlift.rewrite.results import FileResult, Migration
from shardlift.source.edits import split_lines
from shardlift.source.model import Kind

_PMAP = re.compile(r"\bpmap(?:ped|ping|s)?\b")
# A shape in a comment whose first axis is the devices: `(n_devices, batch, ...)`.
_DEVICE_AXIS = re.compile(r"#.*[(\[]\s*(?:n|num|number_of|local)\w*devices?\w*\s*,", re.I)
_LONGEST = 200  # characters of a line


class Leftover(NamedTuple):
    """One line."""

    path: str
    line: int
    text: str


def find_leftovers(migration: Migration) -> list[Leftover]:
    """What comments and strings still say of pmap, or of an axis that was removed."""
    return [leftover for file in migration.files for leftover in _leftovers_in(file)]


def _leftovers_in(file: FileResult) -> Iterator[Leftover]:
    kinds = {change.kind for change in file.rewritten}
    if not file.path.endswith(".py") or not kinds & {Kind.SITE, Kind.VALUE, Kind.DEVICE_AXIS}:
        return
    old = set(split_lines(file.before))  # not the lines of a helper that is new
    lines = split_lines(file.after)
    stale = [_PMAP, _DEVICE_AXIS] if Kind.DEVICE_AXIS in kinds else [_PMAP]
    for token in tokenize.generate_tokens(io.StringIO(file.after, newline="").readline):
        if token.type != tokenize.NAME:
            for match in chain.from_iterable(words.finditer(token.string) for words in stale):
                number = token.start[0] + token.string.count("\n", 0, match.start())
                if lines[number - 1] in old:
                    yield Leftover(file.path, number, lines[number - 1].strip()[:_LONGEST])
