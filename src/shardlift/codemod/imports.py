"""Changing import statements: names that move to another module, names that go, new lines.

Only the names at issue are touched: comments, line breaks and the order of the rest stay.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from shardlift.codemod.file import File
from shardlift.codemod.finding import Edit
from shardlift.codemod.scopes import end as end_of
from shardlift.codemod.scopes import position

Import = ast.Import | ast.ImportFrom
_AFTER_NAME = re.compile(rb"\s*,?[ \t]*(#.*)?$")
_SEPARATOR = re.compile(rb"[ \t]*,")


def moved(
    file: File, statement: ast.ImportFrom, to: Mapping[ast.alias, tuple[str, str]]
) -> tuple[Edit, ...]:
    """Import some names of a statement from elsewhere: `to` says from which module, as what.

    What the file calls them stays: `tree_map` from `jax.tree_util`, `trunc as fix`.
    """
    here = statement.module or ""
    renamed = {alias: name for alias, (module, name) in to.items() if module == here}
    leaving = {alias: place for alias, place in to.items() if place[0] != here}
    edits = [
        file.replace(alias, _as(name, alias.asname or alias.name))
        for alias, name in renamed.items()
    ]
    if leaving:
        lines: dict[str, list[str]] = {}
        for alias, (module, name) in leaving.items():
            lines.setdefault(module, []).append(_as(name, alias.asname or alias.name))
        new = [f"from {module} import {', '.join(names)}" for module, names in lines.items()]
        if len(leaving) == len(statement.names):
            return (file.replace(statement, _joined(file, statement, new)),)
        edits += [*_without(file, statement, leaving), _below(file, statement, new)]
    return tuple(edits)


def dropped(file: File, statement: Import, aliases: Collection[ast.alias]) -> tuple[Edit, ...]:
    """Take names out of a statement; the whole statement if none is left."""
    if len(aliases) < len(statement.names):
        return tuple(_without(file, statement, aliases))
    block = _block(file, statement)
    if len(block) == 1 and not isinstance(file.index.parents[statement], ast.Module):
        return (file.replace(statement, "pass"),)
    if not _alone(file, statement):
        following = block[block.index(statement) + 1 :][:1]
        if following and following[0].lineno == statement.end_lineno:
            end = following[0].lineno, following[0].col_offset
            return (_cut(file, (statement.lineno, statement.col_offset), end),)
        return (file.replace(statement, "pass"),)
    return (_cut(file, (statement.lineno, 0), (statement.end_lineno or 0) + 1),)


def orphaned(before: File, after: File) -> Iterator[tuple[Import, list[ast.alias]]]:
    """Imports of `after` that nothing uses any more, though something in `before` did."""
    if after.path.endswith("__init__.py"):
        return
    lost = _said(before) - _said(after)
    for statement in (*after.index.nodes(ast.Import), *after.index.nodes(ast.ImportFrom)):
        gone = [alias for alias in statement.names if bound_name(alias) in lost]
        if gone and getattr(statement, "module", "") != "__future__":
            yield statement, gone


def added(file: File, statements: Iterable[str]) -> tuple[Edit, ...]:
    """New import statements, at the top of the module, each after its neighbour by name."""
    present = {file.text(node) for node in _top(file)}
    wanted = sorted(set(statements) - present, key=_order)
    return tuple(_placed(file, statement) for statement in wanted)


def bound_name(alias: ast.alias) -> str:
    """The name that an import binds: `import a.b` binds `a`."""
    return alias.asname or alias.name.partition(".")[0]


def _as(name: str, bound: str) -> str:
    return name if name == bound else f"{name} as {bound}"


def _without(file: File, statement: Import, aliases: Collection[ast.alias]) -> Iterator[Edit]:
    """Cut out some names, but not all, and the commas and lines that were theirs."""
    names = statement.names
    first = 0
    while first < len(names):
        if names[first] not in aliases:
            first += 1
            continue
        last = first
        while last + 1 < len(names) and names[last + 1] in aliases:
            last += 1
        yield _cut_run(file, names, first, last)
        first = last + 1


def _cut_run(file: File, names: list[ast.alias], first: int, last: int) -> Edit:
    """Cut out neighbours; what is before them, or after, stays a list of names."""
    start, end = position(names[first]), end_of(names[last])
    in_brackets = file.text(file.index.parents[names[first]]).endswith(")")
    rest = _line(file, end[0])[end[1] :]
    starts_line = not _line(file, start[0])[: start[1]].strip()
    if in_brackets and starts_line and _AFTER_NAME.fullmatch(rest):
        return _cut(file, (start[0], 0), end[0] + 1)
    before = end_of(names[first - 1]) if first else None
    if before and (before[0] == start[0] or last + 1 == len(names)):
        comment = in_brackets and b"#" in _line(file, before[0])[before[1] :]
        if before[0] == start[0] or not comment:
            return _cut(file, before, end)
        comma = _SEPARATOR.match(rest)
        return _cut(file, start, (end[0], end[1] + (comma.end() if comma else 0)))
    return _cut(file, start, position(names[last + 1]))


def _joined(file: File, statement: ast.stmt, lines: list[str]) -> str:
    """Several statements in the place of one."""
    if not _starts_line(file, statement):
        return "; ".join(lines)
    margin = _line(file, statement.lineno)[: statement.col_offset].decode()
    return f"{_newline(file)}{margin}".join(lines)


def _below(file: File, statement: ast.stmt, lines: list[str]) -> Edit:
    """New statements after one that stays."""
    end_line, column = statement.end_lineno or 0, statement.end_col_offset or 0
    if not _alone(file, statement):
        return Edit(file.stretch(end_line, column, end_line, column), "; " + "; ".join(lines))
    column = len(_line(file, end_line))
    margin = _line(file, statement.lineno)[: statement.col_offset].decode()
    text = "".join(f"{_newline(file)}{margin}{line}" for line in lines)
    return Edit(file.stretch(end_line, column, end_line, column), text)


def _alone(file: File, statement: ast.stmt) -> bool:
    """Whether nothing but a comment shares the lines of a statement."""
    rest = _line(file, statement.end_lineno or 0)[statement.end_col_offset or 0 :].strip()
    return _starts_line(file, statement) and (not rest or rest.startswith(b"#"))


def _starts_line(file: File, statement: ast.stmt) -> bool:
    return not _line(file, statement.lineno)[: statement.col_offset].strip()


def _block(file: File, statement: ast.stmt) -> list[ast.stmt]:
    """The statements among which one stands."""
    parent = file.index.parents[statement]
    blocks = (getattr(parent, name, None) for name in ("body", "orelse", "finalbody"))
    return next(block for block in blocks if isinstance(block, list) and statement in block)


def _top(file: File) -> list[Import]:
    """The import statements of the module before its first definition."""
    found: list[Import] = []
    for node in file.index.root.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            break
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found.append(node)
    return found


def _placed(file: File, statement: str) -> Edit:
    top = [node for node in _top(file) if _alone(file, node)]
    family = _order(statement)[0]
    kin = [node for node in top if _order(file.text(node))[0] == family]
    above = [node for node in kin or top if _order(file.text(node)) < _order(statement)]
    if above:
        return _below(file, above[-1], [statement])
    if kin:
        line = kin[0].lineno
    else:
        line = _first_line(file)
    return Edit(file.stretch(line, 0, line, 0), statement + _newline(file))


def _first_line(file: File) -> int:
    """Where the first import of a module can stand: below its docstring and `__future__`."""
    line = 1
    for node in file.index.root.body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not docstring and getattr(node, "module", "") != "__future__":
            return node.lineno
        line = (node.end_lineno or 0) + 1
    return line


def _order(statement: str) -> tuple[str, int, str]:
    """The family of a module (`jax` of `jax.numpy`), `import` before `from`, the name."""
    words = statement.split()
    return words[1].partition(".")[0], int(words[0] == "from"), words[1]


def _said(file: File) -> set[str]:
    """Every name that a file uses, as a name or in a string that may be an annotation."""
    used = {node.id for node in file.index.nodes(ast.Name) if isinstance(node.ctx, ast.Load)}
    for node in file.index.nodes(ast.Constant):
        if isinstance(node.value, str) and len(node.value) < 200:
            used.update(re.findall(r"\w+", node.value))
    return used


def _cut(file: File, start: tuple[int, int], end: tuple[int, int] | int) -> Edit:
    """Delete a stretch; an `end` without a column is the start of that line."""
    if isinstance(end, int):
        # The last line of a file may have no line after it.
        last = end > file.line_count
        end = (end - 1, len(_line(file, end - 1))) if last else (end, 0)
    return Edit(file.stretch(*start, *end), "")


def _line(file: File, number: int) -> bytes:
    return file.line(number).rstrip("\r").encode()


def _newline(file: File) -> str:
    return "\r\n" if "\r\n" in file.source.text else "\n"
