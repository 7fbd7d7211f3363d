"""Notebooks: the code cells of an .ipynb file as one Python text, and back to cell and line."""

import ast
import json
import re
import warnings
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shardlift.source.edits import LINE_END

# Cell magics whose body is ordinary Python that runs in the notebook's own namespace.
_PYTHON_CELLS = ("%%time", "%%timeit", "%%capture", "%%prun", "%%px")
# Line magics that run the rest of their line, and the options before it.
_OPTION = r"-(?:[slDT]\s*\S+|[a-zA-Z]\s*\d*)\s+"
_RUNS_LINE = re.compile(rf"^(\s*)(%(?:time|timeit|prun)\s+(?:{_OPTION})*)(\S.*)$")
_HEADING = re.compile(r"^#+\s.*$", re.M)
_MAGIC = re.compile(r"^(\s*)([%!?].*|[\w.]+\?{1,2}\s*|[\w,()][\w\s,()]*=\s*[%!].*)$")


@dataclass(frozen=True)
class Cells:
    """Where each code cell starts in the joined text."""

    numbers: tuple[int, ...]  # the number of each cell, counting all cells from 1
    first_lines: tuple[int, ...]
    broken: tuple[int, ...] = ()  # the numbers of cells that are not Python
    headings: tuple[str, ...] = ()  # of each code cell: the last one above it, and the text there

    def locate(self, line: int) -> tuple[int, int]:
        """The cell of a line of the joined text, and the line in that cell."""
        index = bisect_right(self.first_lines, line) - 1
        return self.numbers[index], line - self.first_lines[index] + 1

    def heading(self, line: int) -> str:
        """The heading, and the text right above the cell, of a line of the joined text."""
        return self.headings[bisect_right(self.first_lines, line) - 1]


def read_notebook(text: str) -> tuple[str, Cells]:
    """The joined Python text of a notebook, with one line per line of a code cell."""
    document = json.loads(text)
    if not isinstance(document, dict) or not isinstance(document.get("cells"), list):
        raise ValueError("not a notebook of format 4: it has no list of cells")
    lines: list[str] = []
    numbers: list[int] = []
    firsts: list[int] = []
    broken: list[int] = []
    headings: list[str] = []
    heading = above = ""
    for number, cell in enumerate(document["cells"], start=1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            last = next(reversed(_HEADING.findall(_prose(cell))), "")
            heading, above = last or heading, "" if last else above
            above += f"\n{_prose(cell).rpartition(last)[2] if last else _prose(cell)}"
            continue
        code = python_of_cell(source_of_cell(cell))
        if not is_python(code):
            broken.append(number)
            code = "\n" * code.count("\n")
        numbers.append(number)
        firsts.append(len(lines) + 1)
        headings.append(f"{heading}{above}")
        above = ""
        lines += code.split("\n")
    cells = Cells(tuple(numbers), tuple(firsts), tuple(broken), tuple(headings))
    return "\n".join(lines) + "\n", cells


def _prose(cell: object) -> str:
    """The text of a cell that is no code."""
    source = cell.get("source") if isinstance(cell, dict) else None
    return "".join(map(str, source)) if isinstance(source, str | list) else ""


def source_of_cell(cell: Mapping[str, Any]) -> str:
    """The text of a cell, which is a string or a list of lines."""
    source = cell.get("source", "")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        return "".join(source)
    if not isinstance(source, str):
        raise ValueError("the source of a cell is neither a string nor a list of strings")
    return source


def python_of_cell(source: str) -> str:
    """The text of a cell in which magics and shell lines are replaced by `pass`.

    Code after `%time` and similar magics is kept, at the same column.
    """
    lines = LINE_END.split(source)
    if lines[0].startswith("%%") and not lines[0].startswith(_PYTHON_CELLS):
        return "\n" * (len(lines) - 1)
    if is_python(source):
        return "\n".join(lines)
    return "\n".join(_without_magic(line) for line in lines)


def is_python(text: str) -> bool:
    """Whether a text can be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as those for invalid escapes
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _without_magic(line: str) -> str:
    if match := _RUNS_LINE.match(line):
        margin, magic, code = match.groups()
        python = f"{'None':{len(magic) - 2}}; {code}"
        return margin + (python if is_python(python) else "pass")
    return _MAGIC.sub(r"\1pass", line)
