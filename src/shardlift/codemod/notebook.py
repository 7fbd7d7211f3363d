"""Notebooks: the code cells of an .ipynb as one Python text, and the way back to cell and line."""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_right
from dataclasses import dataclass

# Cell magics whose body is ordinary Python that runs in the notebook's own namespace.
_PYTHON_CELLS = ("%%time", "%%timeit", "%%capture", "%%prun", "%%px")
# Line magics that run the rest of their line, and the options that come before it.
_OPTION = r"-(?:[slDT]\s*\S+|[a-zA-Z]\s*\d*)\s+"
_RUNS_LINE = re.compile(rf"^(\s*)(%(?:time|timeit|prun)\s+(?:{_OPTION})*)(\S.*)$")
_MAGIC = re.compile(r"^(\s*)([%!?].*|[\w.]+\?{1,2}\s*|[\w\s,()]+=\s*[%!].*)$")


@dataclass(frozen=True)
class Cells:
    """Where each code cell starts in the joined text."""

    numbers: tuple[int, ...]  # as Jupyter counts: every cell of the notebook, from 1
    first_lines: tuple[int, ...]
    broken: tuple[int, ...] = ()  # cells that are not Python: left out, named, counted

    def locate(self, line: int) -> tuple[int, int]:
        """The cell, and the line in it, of a line of the joined text."""
        index = bisect_right(self.first_lines, line) - 1
        return self.numbers[index], line - self.first_lines[index] + 1


def read_notebook(text: str) -> tuple[str, Cells]:
    """The joined Python text of a notebook, each line kept on a line of its own."""
    document = json.loads(text)
    if not isinstance(document, dict) or not isinstance(document.get("cells"), list):
        raise ValueError("not a notebook of format 4: it has no list of cells")
    lines: list[str] = []
    numbers: list[int] = []
    firsts: list[int] = []
    broken: list[int] = []
    for number, cell in enumerate(document["cells"], start=1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        source = cell.get("source", "")
        code = python_of_cell("".join(source) if isinstance(source, list) else str(source))
        try:
            ast.parse(code)
        except (SyntaxError, ValueError):
            broken.append(number)
            code = "\n" * code.count("\n")
        numbers.append(number)
        firsts.append(len(lines) + 1)
        lines += code.split("\n")
    return "\n".join(lines) + "\n", Cells(tuple(numbers), tuple(firsts), tuple(broken))


def python_of_cell(source: str) -> str:
    """The cell with its magics and shell lines replaced by `pass`, line for line.

    What `%time` and its like run is kept, at its column.
    """
    lines = source.replace("\r\n", "\n").split("\n")
    if lines[0].startswith("%%") and not lines[0].startswith(_PYTHON_CELLS):
        return "\n" * (len(lines) - 1)
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return "\n".join(_without_magic(line) for line in lines)
    return "\n".join(lines)


def _without_magic(line: str) -> str:
    if match := _RUNS_LINE.match(line):
        margin, magic, code = match.groups()
        python = f"{'None':{len(magic) - 2}}; {code}"
        try:
            ast.parse(python)
        except (SyntaxError, ValueError):
            return f"{margin}pass"
        return margin + python
    return _MAGIC.sub(r"\1pass", line)
