"""Imported names: what a file does with them, moving them to another module, removing them.

Comments, line breaks and the order of the other names do not change.
"""

import ast
import builtins
import re
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

from shardlift.source.file import File
from shardlift.source.model import Edit
from shardlift.source.reaching import reaching_bindings
from shardlift.source.scopes import Import, bound_name, position
from shardlift.source.scopes import end as end_of
from shardlift.source.statements import cut, delete, insert_below, line_bytes, replace_statement

_AFTER_NAME = re.compile(rb"\s*,?[ \t]*(#.*)?$")
_SEPARATOR = re.compile(rb"[ \t]*,")


def move_names(
    file: File,
    statement: ast.ImportFrom,
    to: Mapping[ast.alias, tuple[str, str] | None],
    called: Mapping[ast.alias, str] = MappingProxyType({}),
) -> tuple[Edit, ...]:
    """Import some names of a statement from other modules: `to` has the new modules and names.

    What the file calls them stays (`tree_map` from `jax.tree_util`, `trunc as fix`), unless
    `called` says otherwise. None takes a name out, and so does an import that is there already.
    """
    here = statement.module or ""
    bound = {alias: called.get(alias, alias.asname or alias.name) for alias in to}
    others = {alias.asname or alias.name for alias in statement.names if alias not in to}
    to = {
        a: None if place and place[0] == here and bound[a] in others else place
        for a, place in to.items()
    }
    renamed = {alias: place[1] for alias, place in to.items() if place and place[0] == here}
    edits = [file.replace(alias, _as(name, bound[alias])) for alias, name in renamed.items()]
    leaving = [alias for alias in to if alias not in renamed]
    if not leaving:
        return tuple(edits)
    is_at_top = file.index.parents[statement] is file.index.root
    at_top = file.index.from_imports if is_at_top else {}
    lines: dict[str, dict[str, None]] = {}
    for alias in leaving:
        place = to[alias]
        there = at_top.get((*place, bound[alias]), ()) if place is not None else ()
        if place is not None and not any(other is not statement for other in there):
            lines.setdefault(place[0], {})[_as(place[1], bound[alias])] = None
    new = [_import(file, statement, module, names) for module, names in lines.items()]
    if len(leaving) == len(statement.names):
        return (replace_statement(file, statement, new) if new else delete(file, statement),)
    edits += _without(file, statement, leaving)
    return (*edits, insert_below(file, statement, new)) if new else tuple(edits)


def _import(file: File, statement: ast.stmt, module: str, names: Collection[str]) -> str:
    """An import on one line; on one line per name if it would be longer than those of the file."""
    flat, column = f"from {module} import {', '.join(names)}", statement.col_offset
    is_first = len(file.margin(statement.lineno)) == column
    if not is_first or column + len(flat) <= max(80, *map(len, file.lines)):
        return flat
    listed = ",\n    ".join(names)
    return f"from {module} import (\n    {listed},\n)"


def drop_names(file: File, statement: Import, aliases: Collection[ast.alias]) -> tuple[Edit, ...]:
    """Remove names from a statement; delete the statement if none is left."""
    if len(aliases) < len(statement.names):
        return tuple(_without(file, statement, aliases))
    return (delete(file, statement),)


def uses_of(file: File, alias: ast.alias) -> list[ast.Name]:
    """Every use of the name that an import binds."""
    name = bound_name(alias)
    names = file.index.names.get(name, ())
    return [node for node in names if alias in reaching_bindings(file.index, node)]


def is_unused(file: File, alias: ast.alias) -> bool:
    """Whether nothing, in this file or another one, uses a name that is imported here."""
    name = bound_name(alias)
    if name == "*" or file.path.endswith("__init__.py"):
        return False  # packages import names for others to use
    if file.source.cells is not None and file.source.cells.broken:
        return False  # who knows what the cells use that are not Python
    word = re.compile(rf"\b{re.escape(name)}\b")
    strings = (n.value for n in file.index.nodes(ast.Constant) if isinstance(n.value, str))
    if name in file.index.names:
        return False
    if any(word.search(string) for string in strings if len(string) < 200):
        return False  # `__all__`, or an annotation
    project = file.project
    users = {p for p in project.paths_with(name) if file.path in project.graph.targets(p)}
    return not any(_takes(other, name) for other in project.files_with(name, among=users))


def _takes(file: File, name: str) -> bool:
    """Whether a file imports a name, or reads it as an attribute."""
    imported = any(there.name in (name, "*") for there in file.project.graph.imported(file.path))
    return imported or any(node.attr == name for node in file.index.nodes(ast.Attribute))


def is_new_name(file: File, name: str) -> bool:
    """Whether a name means nothing yet, anywhere in a file."""
    bound = any(name in scope.names for scope in {file.index.module, *file.index.opens.values()})
    return not bound and name not in file.index.names and not hasattr(builtins, name)


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
        yield _cut_names(file, names, first, last)
        first = last + 1


def _cut_names(file: File, names: list[ast.alias], first: int, last: int) -> Edit:
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
