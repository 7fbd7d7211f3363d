"""Whole statements: taking one out, putting others in its place or below it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from shardlift.source.file import File
from shardlift.source.model import Edit


def deleted(file: File, statement: ast.stmt) -> Edit:
    """Take a statement out, with its lines; `pass` is left where a block would be empty."""
    if is_only_one(file, statement):
        return file.replace(statement, "pass")
    block = _block(file, statement)
    start = statement.lineno, statement.col_offset
    if alone(file, statement):
        return cut(file, (start[0], 0), (statement.end_lineno or 0) + 1)
    following = block[block.index(statement) + 1 :][:1]
    if following and following[0].lineno == statement.end_lineno:
        return cut(file, start, (following[0].lineno, following[0].col_offset))
    return file.replace(statement, "pass")


def taken_out(file: File, key: ast.AST) -> tuple[Edit, ...]:
    """Take out `f("key", …)` or `d["key"] = …` if it is a statement that does nothing else."""
    holder = file.index.parents.get(key)
    statement = file.index.parents.get(holder) if holder is not None else None
    if isinstance(statement, ast.Assign):
        alone = isinstance(holder, ast.Subscript) and statement.targets == [holder]
        simple = isinstance(statement.value, (ast.Constant, ast.Name))
        return (deleted(file, statement),) if alone and simple else ()
    return (deleted(file, statement),) if isinstance(statement, ast.Expr) else ()


def in_place(file: File, statement: ast.stmt, texts: Sequence[str]) -> Edit:
    """Several statements in the place of one."""
    if not _starts_line(file, statement):
        return file.replace(statement, "; ".join(texts))
    return file.replace(statement, f"{newline(file)}{_margin(file, statement)}".join(texts))


def below(file: File, statement: ast.stmt, texts: Sequence[str]) -> Edit:
    """New statements after one that stays, and after the comment on its line."""
    line, column = statement.end_lineno or 0, statement.end_col_offset or 0
    if not alone(file, statement):
        return Edit(file.stretch(line, column, line, column), "; " + "; ".join(texts))
    column = len(line_bytes(file, line))
    text = "".join(f"{newline(file)}{_margin(file, statement)}{text}" for text in texts)
    return Edit(file.stretch(line, column, line, column), text)


def alone(file: File, statement: ast.stmt) -> bool:
    """Whether nothing but a comment shares the lines of a statement."""
    rest = line_bytes(file, statement.end_lineno or 0)[statement.end_col_offset or 0 :].strip()
    return _starts_line(file, statement) and (not rest or rest.startswith(b"#"))


def is_only_one(file: File, statement: ast.stmt) -> bool:
    """Whether a block, other than the module, would be empty without a statement."""
    in_module = isinstance(file.index.parents[statement], ast.Module)
    return not in_module and len(_block(file, statement)) == 1


def cut(file: File, start: tuple[int, int], end: tuple[int, int] | int) -> Edit:
    """Delete a stretch; an `end` without a column is the start of that line."""
    if isinstance(end, int):
        # The last line of a file may have no line after it; that of a cell has another cell's, or
        # the one that ends the joined text.
        cells = file.source.cells
        last = end > len(file.lines) - (cells is not None)
        last = last or (cells is not None and end in cells.first_lines)
        end = (end - 1, len(line_bytes(file, end - 1))) if last else (end, 0)
    return Edit(file.stretch(*start, *end), "")


def line_bytes(file: File, number: int) -> bytes:
    """A line as `ast` counts its columns."""
    return file.lines[number - 1].encode()


def newline(file: File) -> str:
    """How the lines of a file end."""
    return "\r\n" if "\r\n" in file.source.text else "\n"


def _margin(file: File, statement: ast.stmt) -> str:
    return line_bytes(file, statement.lineno)[: statement.col_offset].decode()


def _starts_line(file: File, statement: ast.stmt) -> bool:
    return not line_bytes(file, statement.lineno)[: statement.col_offset].strip()


def _block(file: File, statement: ast.stmt) -> list[ast.stmt]:
    """The statements among which one stands."""
    parent = file.index.parents[statement]
    blocks = (getattr(parent, name, None) for name in ("body", "orelse", "finalbody"))
    return next(block for block in blocks if isinstance(block, list) and statement in block)
