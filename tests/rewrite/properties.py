"""What holds of every migrated file, whoever wrote it."""

from __future__ import annotations

import ast
import warnings
from itertools import pairwise

from shardlift.rewrite.results import FileResult
from shardlift.source.edits import line_starts


def parses(file: FileResult) -> bool:
    """Whether the new text is Python."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ast.parse(file.after)
    return True


def lost_line(file: FileResult) -> str | None:
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(file.before)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    for number, line in reversed(list(enumerate(_lines(file.before), start=1))):
        if number + 1 in found and line.lstrip().startswith("#"):
            found.add(number)  # a comment goes with the statement below it
    return found


def _lines(text: str) -> list[str]:
    starts = [*line_starts(text), len(text)]
    return [text[a:b].rstrip("\r\n") for a, b in pairwise(starts)]
