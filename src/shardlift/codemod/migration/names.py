"""Names of a file that a rewrite writes: the file's own name for jax, and what is shadowed."""

from __future__ import annotations

import ast

from shardlift.codemod.file import File
from shardlift.codemod.migration.helpers import catalogue
from shardlift.codemod.scopes import Scope

JAX = "import jax"


def jax_name(file: File) -> tuple[str, frozenset[str]]:
    """What the module `jax` is called in a file, and the import that is needed for it."""
    for name, bound in file.index.module.names.items():
        if len(bound) == 1 or name == "jax":
            for node in bound:
                if isinstance(node, ast.alias) and _is_jax(file, node):
                    return name, frozenset()
    return "jax", frozenset({JAX})


def is_shadowed(file: File, node: ast.AST, name: str) -> bool:
    """Whether a name that a module imports means something else where a node stands."""
    scope: Scope | None = _scope(file, node)
    while scope is not None and scope.parent is not None:
        if any(not isinstance(bound, ast.alias) for bound in scope.names.get(name, ())):
            return True
        scope = scope.parent
    bound = file.index.module.names.get(name, ())
    if name in catalogue():
        # Defined here by an earlier migration.
        return any(not isinstance(node, (ast.alias, ast.FunctionDef)) for node in bound)
    return any(not isinstance(node, ast.alias) for node in bound)


def _scope(file: File, node: ast.AST) -> Scope:
    for around in (node, *file.index.ancestors(node)):
        if around in file.index.opens and around is not node:
            return file.index.opens[around]
    return file.index.module


def _is_jax(file: File, alias: ast.alias) -> bool:
    statement = file.index.parents[alias]
    if not isinstance(statement, ast.Import):
        return False
    return alias.name == "jax" or (not alias.asname and alias.name.startswith("jax."))
