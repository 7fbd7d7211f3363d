"""What a migration changes in a file, as a unified diff; in a notebook, cell by cell."""

import difflib
import json
import re
from collections.abc import Iterator, Sequence

from shardlift._escape import escape_control
from shardlift.rewrite.results import FileResult
from shardlift.source.notebook import source_of_cell

NumberedCell = tuple[int, str]


def diff_of(file: FileResult) -> list[str]:
    """The lines of the diff. Of a Python file, `git apply` takes them."""
    path = escape_control(file.path)
    if not file.path.endswith(".ipynb"):
        old = f"a/{path}" if file.before else "/dev/null"
        return _unified(file.before, file.after, old, f"b/{path}")
    before, after = _cells(file.before), _cells(file.after)
    lines: list[str] = []
    for pair in _pairs(before, after):
        names = ["/dev/null" if cell is None else f"{path}: cell {cell[0]}" for cell in pair]
        texts = ["" if cell is None else cell[1] for cell in pair]
        lines += _unified(*texts, *names)
    return lines


def _unified(before: str, after: str, old: str, new: str) -> list[str]:
    lines = difflib.unified_diff(_lines(before), _lines(after), old, new)
    end = "\n\\ No newline at end of file\n"
    return [line if line.endswith("\n") else f"{line}{end}" for line in lines]


def _lines(text: str) -> list[str]:
    """Lines as diff and patch see them: neither a `\\r` nor a form feed ends one."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _cells(notebook: str) -> list[NumberedCell]:
    """Each cell: its number, and its text with a line break at the end."""
    cells = enumerate(json.loads(notebook)["cells"], start=1)
    return [(number, f"{source_of_cell(cell).rstrip()}\n") for number, cell in cells]


def _pairs(
    before: Sequence[NumberedCell], after: Sequence[NumberedCell]
) -> Iterator[tuple[NumberedCell | None, NumberedCell | None]]:
    """The cells that differ, old and new. A new cell stands in front of those that use it."""
    old_texts, new_texts = ([text for _, text in cells] for cells in (before, after))
    matcher = difflib.SequenceMatcher(None, old_texts, new_texts, autojunk=False)
    for kind, first, last, new, end in matcher.get_opcodes():
        if kind != "equal":
            added = (end - new) - (last - first)
            old = [*[None] * added, *before[first:last]]
            yield from zip(old, [*[None] * -added, *after[new:end]], strict=True)
