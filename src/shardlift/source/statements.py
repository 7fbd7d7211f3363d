"""Edits of whole statements: deleting, replacing, and inserting below."""

import ast
import re
from collections.abc import Collection, Sequence
from itertools import takewhile

from shardlift.source.file import File, remembered
from shardlift.source.model import Edit
from shardlift.source.scopes import first_line, last_name
from shardlift.source.text import usual_quote

# Functions that do nothing but look, in a test.
_LOOKS = frozenset({"str", "get_ipython", "get", "getenv", "len", "bool"})
# A comment on Colab or its TPU, and what is deleted of its set-up.
ON_COLAB = re.compile(r"^\s*#.*(colab|tpu).*", re.IGNORECASE | re.MULTILINE)
_SETS_UP_TPU = re.compile(r"colab_tpu|setup_tpu")
# Comments for tools and notebooks, such as `# fmt: off`, `# %%` and `#@title`.
_FOR_TOOLS = re.compile(rb"#\s*(@|%%|!|\w+: *(off|on|skip|disable|enable|noqa|ignore)\b)")


def delete(file: File, statement: ast.stmt) -> Edit:
    """Delete a statement with its lines and comments, or replace it by `pass` if it is alone."""
    if is_only_statement(file, statement):
        return file.replace(statement, "pass")
    block = block_of(file, statement)
    start = statement.lineno, statement.col_offset
    if is_alone(file, statement):
        first = _first_line(file, statement)
        below = _line_below(file, statement, first)
        return cut(file, (first - _needless_gap(file, first, below), 0), below)
    following = block[block.index(statement) + 1 :][:1]
    if following and following[0].lineno == statement.end_lineno:
        return cut(file, start, (following[0].lineno, following[0].col_offset))
    return file.replace(statement, "pass")


def branch_around(file: File, statement: ast.stmt) -> ast.If | None:
    """The `if` whose only branch a statement is in, if its test does nothing but look."""
    parent = file.index.parents[statement]
    if not isinstance(parent, ast.If) or parent.orelse or not is_alone(file, parent):
        return None
    if file.text(parent).startswith("elif") or is_only_statement(file, parent):
        return None
    calls = (node for node in ast.walk(parent.test) if isinstance(node, ast.Call))
    return parent if all(last_name(call.func) in _LOOKS for call in calls) else None


def delete_with_branch(file: File, statement: ast.stmt, others: Collection[ast.stmt] = ()) -> Edit:
    """Delete a statement, with the branch that it and the others leave empty."""
    if not is_only_statement(file, statement, others):
        return delete(file, statement)
    guard = branch_around(file, statement)
    return delete_with_gap(file, guard) if guard else file.replace(statement, "pass")


def delete_with_gap(file: File, statement: ast.stmt) -> Edit:
    """Delete the lines of a statement, the blank lines above it, and its comment on Colab."""
    cells, first = file.source.cells, _first_line(file, statement)
    while first > 1 and (cells is None or first not in cells.first_lines):
        above = file.lines[first - 2].strip()
        if above and not ON_COLAB.match(above):
            break
        first -= 1
    return cut(file, (first, 0), _line_below(file, statement, first))


def _line_below(file: File, statement: ast.stmt, first: int) -> int:
    """The line below a statement that is deleted from its first line on.

    No cell of a notebook starts with an empty line.
    """
    below = (statement.end_lineno or 0) + 1
    edges = file.source.cells.first_lines if file.source.cells is not None else ()
    while first in edges and below < len(file.lines) and below not in edges:
        if line_bytes(file, below).strip():
            break
        below += 1
    return below


def _needless_gap(file: File, first: int, below: int) -> int:
    """How many of the blank lines above deleted lines go along: those below are as many."""
    if file.source.cells is not None:
        return 0
    above, under = reversed(file.lines[: first - 1]), file.lines[below - 1 :]
    gaps = (takewhile(lambda line: not line.strip(), lines) for lines in (above, under))
    return min(len([*gap]) for gap in gaps)


def _first_line(file: File, statement: ast.stmt) -> int:
    """The line where a statement starts, or the comments above it that are about nothing else.

    They are about what follows, too, unless an empty line or the end of the block comes next.
    """
    cells, column = file.source.cells, statement.col_offset
    start = first_line(statement)
    edges = cells.first_lines if cells is not None else ()
    below = (statement.end_lineno or start) + 1
    if below <= len(file.lines) and below not in edges:
        following = line_bytes(file, below)
        is_beside = following.strip() and not following[:column].strip()
        if is_beside and not _speaks_of_set_up(file, start, below):
            return start
    block = block_of(file, statement)
    before = block[: block.index(statement)][-1:]
    last = (before[0].end_lineno or 0) if before else 0
    first = start
    while first - 1 > last and first not in edges:
        above = line_bytes(file, first - 1)
        if above[:column].strip() or not above[column:].startswith(b"#"):
            break
        if _FOR_TOOLS.match(above[column:]):
            return start
        first -= 1
    return start if first == 1 and cells is None else first  # a file starts with its licence


def _speaks_of_set_up(file: File, first: int, below: int) -> bool:
    """Whether a comment is about the set-up of a TPU that goes, and about no line that is below."""
    if not _SETS_UP_TPU.search(file.lines[first - 1]) or not ON_COLAB.match(file.lines[first - 2]):
        return False
    following = takewhile(str.strip, file.lines[below - 1 :])
    return not any("tpu" in line.lower() and not _SETS_UP_TPU.search(line) for line in following)


def delete_setting(file: File, key: ast.AST) -> tuple[Edit, ...]:
    """Delete `f("key", …)` or `d["key"] = …` if the statement does nothing else."""
    holder = file.index.parents.get(key)
    statement = file.index.parents.get(holder) if holder is not None else None
    if isinstance(statement, ast.Assign):
        is_target = isinstance(holder, ast.Subscript) and statement.targets == [holder]
        simple = isinstance(statement.value, (ast.Constant, ast.Name))
        return (delete(file, statement),) if is_target and simple else ()
    return (delete(file, statement),) if isinstance(statement, ast.Expr) else ()


def replace_statement(file: File, statement: ast.stmt, texts: Sequence[str]) -> Edit:
    """Replace one statement by several."""
    if not _starts_line(file, statement):
        return file.replace(statement, "; ".join(texts))
    below = f"{newline(file)}{_margin(file, statement)}"
    return file.replace(statement, below.join("\n".join(texts).split("\n")))


def insert_below(file: File, statement: ast.stmt, texts: Sequence[str]) -> Edit:
    """Insert statements after a statement and the comment on its line."""
    line, column = statement.end_lineno or 0, statement.end_col_offset or 0
    if not is_alone(file, statement):
        return Edit(file.stretch(line, column, line, column), "; " + "; ".join(texts))
    column = len(line_bytes(file, line))
    below = f"{newline(file)}{_margin(file, statement)}"
    text = "".join(below + line for text in texts for line in text.split("\n"))
    return Edit(file.stretch(line, column, line, column), text)


def string(file: File, value: str) -> str:
    """A string literal in the quotes that the file has most of."""
    quote = usual_quote(file.source.text)
    return f"{quote}{value}{quote}"


def is_alone(file: File, statement: ast.stmt) -> bool:
    """Whether a statement shares its lines with nothing but a comment."""
    rest = line_bytes(file, statement.end_lineno or 0)[statement.end_col_offset or 0 :].strip()
    return _starts_line(file, statement) and (not rest or rest.startswith(b"#"))


def block_of(file: File, statement: ast.stmt) -> list[ast.stmt]:
    """The block that a statement belongs to."""
    parent = file.index.parents[statement]
    blocks = (getattr(parent, name, None) for name in ("body", "orelse", "finalbody"))
    return next(block for block in blocks if isinstance(block, list) and statement in block)


def is_only_statement(
    file: File, statement: ast.stmt, deleted: Collection[ast.stmt | None] = ()
) -> bool:
    """Whether a block, but for what is deleted, has just this statement; never of a module."""
    in_module = isinstance(file.index.parents[statement], ast.Module)
    return not in_module and not set(block_of(file, statement)) - {statement, *deleted}


def cut(file: File, start: tuple[int, int], end: tuple[int, int] | int) -> Edit:
    """Delete the text between two positions; an `end` without a column is the start of a line."""
    if isinstance(end, int):
        # There may be no line after the last one of a file. In a notebook, the next line belongs to
        # another cell, or ends the joined text.
        cells = file.source.cells
        last = end > len(file.lines) - (cells is not None)
        last = last or (cells is not None and end in cells.first_lines)
        line, column = start
        if last and cells is not None and not column and line not in cells.first_lines:
            start = line - 1, len(line_bytes(file, line - 1))  # no empty line at the cell's end
        end = (end - 1, len(line_bytes(file, end - 1))) if last else (end, 0)
    return Edit(file.stretch(*start, *end), "")


def line_bytes(file: File, number: int) -> bytes:
    """A line in bytes, because `ast` counts columns in bytes."""
    return file.lines[number - 1].encode()


@remembered
def newline(file: File) -> str:
    """The line end that a file uses."""
    return "\r\n" if "\r\n" in file.source.text else "\n"


def _margin(file: File, statement: ast.stmt) -> str:
    return line_bytes(file, statement.lineno)[: statement.col_offset].decode()


def _starts_line(file: File, statement: ast.stmt) -> bool:
    return not line_bytes(file, statement.lineno)[: statement.col_offset].strip()
