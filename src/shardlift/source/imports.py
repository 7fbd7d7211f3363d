"""Edits of import statements: moving names to another module, and removing names.

Comments, line breaks and the order of the other names do not change.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping

from shardlift.source.file import File
from shardlift.source.model import Edit
from shardlift.source.scopes import end as end_of
from shardlift.source.scopes import position
from shardlift.source.statements import below, cut, deleted, in_place, line_bytes

Import = ast.Import | ast.ImportFrom
_AFTER_NAME = re.compile(rb"\s*,?[ \t]*(#.*)?$")
_SEPARATOR = re.compile(rb"[ \t]*,")


def moved(
    file: File, statement: ast.ImportFrom, to: Mapping[ast.alias, tuple[str, str]]
) -> tuple[Edit, ...]:
    """Import some names of a statement from other modules: `to` has the new modules and names.

    The names that the file uses do not change: `from jax.numpy import trunc as fix`.
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
    """Remove names from a statement; delete the statement if none is left."""
    if len(aliases) < len(statement.names):
        return tuple(_without(file, statement, aliases))
    return (deleted(file, statement),)


def bound_name(alias: ast.alias) -> str:
    """The name that an import binds: `import a.b` binds `a`."""
    return alias.asname or alias.name.partition(".")[0]


def _as(name: str, bound: str) -> str:
    return name if name == bound else f"{name} as {bound}"


def _without(file: File, statement: Import, aliases: Collection[ast.alias]) -> Iterator[Edit]:
    """Remove some names, but not all, with their commas and lines."""
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
    """Remove adjacent names so that the names before and after them remain a list."""
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
