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
from shardlift.codemod.statements import alone, below, cut, deleted, in_place, line_bytes, newline

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
            return (in_place(file, statement, new),)
        edits += [*_without(file, statement, leaving), below(file, statement, new)]
    return tuple(edits)


def dropped(file: File, statement: Import, aliases: Collection[ast.alias]) -> tuple[Edit, ...]:
    """Take names out of a statement; the whole statement if none is left."""
    if len(aliases) < len(statement.names):
        return tuple(_without(file, statement, aliases))
    return (deleted(file, statement),)


def orphaned(before: File, after: File) -> Iterator[tuple[Import, list[ast.alias]]]:
    """Imports of `after` that nothing uses any more, though something in `before` did."""
    if after.path.endswith("__init__.py"):
        return
    lost = _said(before) - _said(after)
    statements: list[Import] = [*after.index.nodes(ast.Import), *after.index.nodes(ast.ImportFrom)]
    for statement in statements:
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
    rest = line_bytes(file, end[0])[end[1] :]
    starts_line = not line_bytes(file, start[0])[: start[1]].strip()
    if in_brackets and starts_line and _AFTER_NAME.fullmatch(rest):
        return cut(file, (start[0], 0), end[0] + 1)
    before = end_of(names[first - 1]) if first else None
    if before and (before[0] == start[0] or last + 1 == len(names)):
        comment = in_brackets and b"#" in line_bytes(file, before[0])[before[1] :]
        if before[0] == start[0] or not comment:
            return cut(file, before, end)
        comma = _SEPARATOR.match(rest)
        return cut(file, start, (end[0], end[1] + (comma.end() if comma else 0)))
    return cut(file, start, position(names[last + 1]))


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
    top = [node for node in _top(file) if alone(file, node)]
    family = _order(statement)[0]
    kin = [node for node in top if _order(file.text(node))[0] == family]
    above = [node for node in kin or top if _order(file.text(node)) < _order(statement)]
    if above:
        return below(file, above[-1], [statement])
    line = kin[0].lineno if kin else _first_line(file)
    return Edit(file.stretch(line, 0, line, 0), statement + newline(file))


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
