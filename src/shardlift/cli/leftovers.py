"""What still speaks of pmap after a migration: listed, for a person to look at."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from shardlift.cli.files import find_files
from shardlift.report.numbers import count
from shardlift.rewrite.results import Migration
from shardlift.source.edits import split_lines
from shardlift.source.model import Kind
from shardlift.source.text import UnreadableError, read_source

_DOCUMENTS = (".md", ".rst")
_PMAP = re.compile(r"\bpmap(?:ped|ping|s)?\b")
_QUOTED = re.compile(r"""["'](?:\w+\.)*pmap["']""")
# A shape in a comment whose first axis is the devices: `(n_devices, batch, ...)`.
_DEVICE_AXIS = re.compile(r"#.*[(\[]\s*(?:n|num|number_of|local)\w*devices?\w*\s*,", re.I)
_SHOWN = 10
_LONGEST = 200  # characters of a line


class LeftoverKind(StrEnum):
    """How pmap is still spoken of."""

    STRING = "string"  # "jax.pmap": a mock of it, perhaps, which the new code does not call
    TEXT = "text"  # a comment, a docstring, a document
    SHAPE = "shape"  # a comment with a shape whose device axis may have gone

    @classmethod
    def of(cls, line: str) -> LeftoverKind:
        """The kind of a line."""
        return cls.STRING if _QUOTED.search(line) else cls.TEXT


@dataclass(frozen=True)
class Leftover:
    """One line."""

    path: str
    line: int
    kind: LeftoverKind
    text: str


def find_leftovers(
    migration: Migration,
    paths: tuple[str, ...],
    files: Sequence[str],
    read: Callable[[str], bytes],
) -> list[Leftover]:
    """The leftovers of the files and of the documents beside them, if a pmap was rewritten."""
    mapped = (Kind.SITE, Kind.VALUE)
    if not any(change.kind in mapped for file in migration.files for change in file.rewritten):
        return []
    new = {file.path: file.after for file in migration.files}
    written = {file.path for file in migration.helper_modules}
    found = [
        Leftover(file.path, number, LeftoverKind.SHAPE, _shorten(line))
        for file in migration.files
        if any(change.kind is Kind.DEVICE_AXIS for change in file.rewritten)
        for number, line in enumerate(split_lines(file.after), start=1)
        if _DEVICE_AXIS.search(line)
    ]
    for path in (*files, *find_files(paths, suffixes=_DOCUMENTS)):
        try:
            content = b"" if path in written or path.endswith(".ipynb") else read(path)
            if b"pmap" in content:
                is_python = path.endswith(".py")
                before = read_source(path, content).text if is_python else content.decode()
                # Not the lines of a helper that the migration put into the file.
                known = set(map(_shorten, split_lines(before)))
                found += [x for x in leftovers_in(path, new.get(path, before)) if x.text in known]
        except (OSError, UnreadableError, UnicodeDecodeError):
            continue
    return sorted(found, key=lambda leftover: leftover.kind is not LeftoverKind.STRING)


def leftovers_in(path: str, text: str) -> list[Leftover]:
    """The lines of a Python file, or of a document, that say pmap other than by a name in code."""
    try:
        names = set(_names(ast.parse(text))) if path.endswith(".py") else ()
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: nested deeply
        return []
    return [
        Leftover(path, number, LeftoverKind.of(line), _shorten(line))
        for number, line in enumerate(split_lines(text), start=1)
        if _PMAP.search(line) and number not in names
    ]


def _names(tree: ast.Module) -> Iterator[int]:
    """The lines with names such as pmap."""
    for node in ast.walk(tree):
        parts = (getattr(node, field, None) for field in ("id", "attr", "name", "arg"))
        if any(isinstance(part, str) and _PMAP.search(part) for part in parts):
            yield getattr(node, "end_lineno" if isinstance(node, ast.Attribute) else "lineno")


def _shorten(line: str) -> str:
    return line.strip()[:_LONGEST]


_SAYS = {
    LeftoverKind.STRING: "still says pmap (string)",
    LeftoverKind.TEXT: "still says pmap (text)",
    LeftoverKind.SHAPE: "still has a device axis (comment)",
}


def sentences(leftovers: Sequence[Leftover], verbose: bool) -> list[str]:
    """The lines for the terminal."""
    if not leftovers:
        return []
    shown = leftovers if verbose else leftovers[:_SHOWN]
    lines = [f"{one.path}:{one.line}: {_SAYS[one.kind]}: {one.text}" for one in shown]
    counts = Counter(leftover.kind for leftover in leftovers)
    words = {
        LeftoverKind.STRING: "string",
        LeftoverKind.TEXT: "line",
        LeftoverKind.SHAPE: "comment",
    }
    parts = [count(counts[kind], word) for kind, word in words.items() if counts[kind]]
    more = "" if len(shown) == len(leftovers) else " (--verbose lists all)"
    return [*lines, f"Still about pmap, for you to look at: {', '.join(parts)}{more}."]
