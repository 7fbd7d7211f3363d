"""Names of JAX and flax for which a helper, and shardlift, has a function of the same call.

`jax.device_put_sharded` becomes `device_put_sharded`, a helper of the package, or
`shardlift.device_put_sharded`; an import of it goes, or comes from shardlift.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from shardlift.codemod.file import File
from shardlift.codemod.guarded import is_guarded
from shardlift.codemod.imports import bound_name, dropped, moved
from shardlift.codemod.migration.helpers import catalogue
from shardlift.codemod.migration.home import MODULE
from shardlift.codemod.migration.rewrite import Goal, Refusal, Rewrite
from shardlift.codemod.scopes import Scope
from shardlift.codemod.values import External

# What newer flax lets its functions name; the helpers have one name for it.
_ONLY_IN_FLAX = "axis_name"
# Library name -> the name of its substitute.
Table = Mapping[str, str]


def substituted(file: File, goal: Goal, table: Table) -> Iterator[Rewrite | Refusal]:
    """Every use of a name of the table, through its module or imported from it."""
    for node in file.index.nodes(ast.Attribute):
        path = _through_module(file, node, table)
        if path is not None and not is_guarded(file, node) and _fits(file, node, goal):
            yield _attribute(file, node, path, table[path], goal)
    for statement in file.index.nodes(ast.ImportFrom):
        names = {
            alias: f"{statement.module}.{alias.name}"
            for alias in statement.names
            if not statement.level and f"{statement.module}.{alias.name}" in table
        }
        if names and not is_guarded(file, statement):
            yield from _imported(file, statement, names, table, goal)


def is_free(file: File, node: ast.AST, name: str, path: str = "") -> bool:
    """Whether `name` can mean a function of a helper module where a node stands.

    Nothing else may bind it there; an import of `path`, which it replaces, may.
    """
    scope: Scope | None = _scope(file, node)
    while scope is not None:
        for bound in scope.names.get(name, ()):
            replaced = isinstance(bound, ast.alias) and file.resolver.bound(bound) == (
                External(path),
            )
            if not replaced and not _is_emitted(file, bound, name):
                return False
        scope = scope.parent
    return True


def _is_emitted(file: File, bound: ast.AST, name: str) -> bool:
    """Whether an earlier migration put the helper of this name there."""
    if isinstance(bound, ast.alias):
        statement = file.index.parents[bound]
        module = statement.module or "" if isinstance(statement, ast.ImportFrom) else ""
        return bound.name == name and module.rpartition(".")[2] == MODULE
    helper = catalogue().get(name)
    return helper is not None and file.text(bound) == helper.source


def _through_module(file: File, node: ast.Attribute, table: Table) -> str | None:
    """The library name of `module.name`, where the module is the library's own."""
    if not isinstance(node.ctx, ast.Load):
        return None
    endings = {path.rpartition(".")[2] for path in table}
    if node.attr not in endings or not isinstance(node.value, (ast.Name, ast.Attribute)):
        return None
    path = f"{file.name(node.value)}.{node.attr}"
    return path if path in table else None


def _fits(file: File, node: ast.AST, goal: Goal) -> bool:
    call = file.index.parents.get(node)
    if goal is Goal.SHIM or not isinstance(call, ast.Call) or call.func is not node:
        return True
    return all(keyword.arg != _ONLY_IN_FLAX for keyword in call.keywords)


def _attribute(
    file: File, node: ast.Attribute, path: str, name: str, goal: Goal
) -> Rewrite | Refusal:
    if goal is Goal.SHIM:
        if not is_free(file, node, "shardlift", "shardlift"):
            return Refusal(node, f"{path}: `shardlift` is another thing in this file")
        edit = file.replace(node, f"shardlift.{name}")
        return Rewrite(node, (edit,), imports=frozenset({"import shardlift"}))
    if not is_free(file, node, name, path):
        return Refusal(node, f"{path}: the file has a `{name}` of its own")
    return Rewrite(node, (file.replace(node, name),), helpers=frozenset({name}))


def _imported(
    file: File,
    statement: ast.ImportFrom,
    names: Mapping[ast.alias, str],
    table: Table,
    goal: Goal,
) -> Iterator[Rewrite | Refusal]:
    if goal is Goal.SHIM:
        to = {alias: ("shardlift", table[path]) for alias, path in names.items()}
        yield Rewrite(statement, moved(file, statement, to))
        return
    gone: list[ast.alias] = []
    edits = []
    for alias, path in names.items():
        name, uses = table[path], _uses(file, bound_name(alias), path)
        if not all(is_free(file, use, name, path) for use in (statement, *uses)):
            yield Refusal(alias, f"{path}: the file has a `{name}` of its own")
        elif all(_fits(file, use, goal) for use in uses):
            gone.append(alias)
            edits += [file.replace(use, name) for use in uses if use.id != name]
    if gone:
        helpers = frozenset(table[names[alias]] for alias in gone)
        yield Rewrite(statement, (*dropped(file, statement, gone), *edits), helpers=helpers)


def _uses(file: File, name: str, path: str) -> list[ast.Name]:
    nodes = (node for node in file.index.nodes(ast.Name) if node.id == name)
    return [n for n in nodes if isinstance(n.ctx, ast.Load) and External(path) in file.values(n)]


def _scope(file: File, node: ast.AST) -> Scope:
    for around in file.index.ancestors(node):
        if around in file.index.opens:
            return file.index.opens[around]
    return file.index.module
