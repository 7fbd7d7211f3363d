"""Every place where a file names pmap itself: called, as a decorator, or as a value."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlift.source.file import File
from shardlift.source.reaching import reaching
from shardlift.source.values import External
from shardlift.source.wrappers import PMAPS

OWN = frozenset({"jax.pmap", "jax.api.pmap"})
OTHERS = PMAPS - OWN
_LAST = frozenset(path.rpartition(".")[2] for path in PMAPS)
Reference = ast.Attribute | ast.Name


def references(file: File) -> Iterator[tuple[Reference, str]]:
    """Each expression that can only be a library's pmap, and the library's name for it.

    A name that the program itself made for pmap (`pmap = jax.pmap`) is not one: it changes where
    it is made.
    """
    aliases = {alias.asname or alias.name for alias in file.index.nodes(ast.alias) if _names(alias)}
    if any(alias.name == "*" for alias in file.index.nodes(ast.alias)):
        aliases |= _LAST
    attributes = [node for node in file.index.nodes(ast.Attribute) if node.attr in _LAST]
    names = [node for node in file.index.nodes(ast.Name) if node.id in aliases]
    nodes: list[Reference] = [*attributes, *names]
    for node in nodes:
        if isinstance(node.ctx, ast.Load):
            value = file.only(node)
            if isinstance(value, External) and value.path in PMAPS and _is_imported(file, node):
                yield node, value.path


def _names(alias: ast.alias) -> bool:
    return alias.name.rpartition(".")[2] in _LAST


def _is_imported(file: File, node: ast.expr) -> bool:
    """Whether only imports lead from the expression to the library."""
    if isinstance(node, ast.Attribute):
        base = file.only(node.value)
        if not isinstance(base, External):
            return False
        known = base.path.partition(".")[0] in {path.partition(".")[0] for path in PMAPS}
        return known or _imported_there(file, tuple(base.path.split(".")), node.attr)
    assert isinstance(node, ast.Name)
    bound = reaching(file.index, node)
    return all(isinstance(alias, ast.alias) and _from_library(file, alias) for alias in bound)


def _from_library(file: File, alias: ast.alias) -> bool:
    statement = file.index.parents[alias]
    if not isinstance(statement, ast.ImportFrom):
        return True
    module = (statement.module or "").split(".")
    if not statement.level and module[0] in {path.partition(".")[0] for path in PMAPS}:
        return True
    return _imported_there(file, tuple(part for part in module if part), alias.name)


def _imported_there(file: File, module: tuple[str, ...], name: str) -> bool:
    """Whether another file of the project has the name by an import, not by an assignment."""
    other = file.project.module(module, file.path)
    if other is None or other is file:
        return False
    bound = other.index.module.names.get(name, ())
    return bool(bound) and all(
        isinstance(alias, ast.alias) and _from_library(other, alias) for alias in bound
    )
