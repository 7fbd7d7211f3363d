"""Mentions of pmap: every expression of a file that names the pmap of a library."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from shardlift.source.libraries import PMAPS
from shardlift.source.reaching import reaching_bindings
from shardlift.source.values import External

if TYPE_CHECKING:
    from shardlift.source.file import File

OWN = frozenset({"jax.pmap", "jax.api.pmap"})  # JAX's own pmap
_LAST = frozenset(path.rpartition(".")[2] for path in PMAPS)
_LIBRARIES = frozenset(path.partition(".")[0] for path in PMAPS)
# Functions that inspect a function and do not call it.
_INSPECTIONS = frozenset(
    {"functools.wraps", "builtins.help", "inspect.signature", "builtins.print"}
)
Name = ast.Attribute | ast.Name


class Use(StrEnum):
    """How pmap is used where it is mentioned."""

    CALL = "call"  # jax.pmap(f)
    DECORATOR = "decorator"  # @jax.pmap, @partial(jax.pmap, …)
    VALUE = "value"  # train(transform=jax.pmap)
    COMPARED = "compared"  # transform is jax.pmap


@dataclass(frozen=True, eq=False)
class Mention:
    """An expression that can only be the pmap of a library."""

    name: Name
    path: str  # the library's name for it
    use: Use
    node: ast.expr  # the call, the decorator, or the name alone

    @property
    def is_own(self) -> bool:
        """Whether it is JAX's own pmap."""
        return self.path in OWN


def find_mentions(file: File) -> Iterator[Mention]:
    """Find every mention in a file.

    A name that is only inspected (`jax.pmap.__doc__`) is not a mention. Neither is a name that the
    program assigns itself (`pmap = jax.pmap`): it changes together with the assignment.
    """
    for name in _candidates(file):
        value = file.only(name)
        if not isinstance(value, External) or value.path not in PMAPS:
            continue
        if _is_imported(file, name) and not _is_inspected(file, name):
            use, node = _use(file, name)
            yield Mention(name, value.path, use, node)


def _candidates(file: File) -> Iterator[Name]:
    imported = file.index.nodes(ast.alias)
    names = {a.asname or a.name for a in imported if a.name.rpartition(".")[2] in _LAST}
    if any(alias.name == "*" for alias in imported):
        names |= _LAST
    for last in _LAST & file.index.attributes.keys():
        yield from file.index.attributes[last]
    for name in names & file.index.names.keys():
        yield from (use for use in file.index.names[name] if isinstance(use.ctx, ast.Load))


def _is_inspected(file: File, name: Name) -> bool:
    parent = file.index.parents.get(name)
    return isinstance(parent, ast.Attribute) or file.called(parent) in _INSPECTIONS


def _use(file: File, name: Name) -> tuple[Use, ast.expr]:
    parent = file.index.parents.get(name)
    if is_decorator(file, name):
        return Use.DECORATOR, name
    if isinstance(parent, ast.Compare):
        return Use.COMPARED, name
    if isinstance(parent, ast.Call):
        if parent.func is name:
            return Use.CALL, parent
        is_partial = file.called(parent) == "functools.partial" and len(parent.args) == 1
        if is_partial and is_decorator(file, parent):
            return Use.DECORATOR, parent
    return Use.VALUE, name


def is_decorator(file: File, node: ast.expr) -> bool:
    """Whether an expression decorates a function."""
    parent = file.index.parents.get(node)
    return isinstance(parent, ast.FunctionDef) and node in parent.decorator_list


def _is_imported(file: File, name: Name) -> bool:
    """Whether only imports lead from the expression to the library."""
    if isinstance(name, ast.Attribute):
        base = file.only(name.value)
        if not isinstance(base, External):
            return False
        parts = tuple(base.path.split("."))
        return parts[0] in _LIBRARIES or _is_imported_there(file, parts, name.attr)
    bound = reaching_bindings(file.index, name)
    return all(isinstance(alias, ast.alias) and _is_from_library(file, alias) for alias in bound)


def _is_from_library(file: File, alias: ast.alias) -> bool:
    statement = file.index.parents[alias]
    if not isinstance(statement, ast.ImportFrom):
        return True
    module = (statement.module or "").split(".")
    if not statement.level and module[0] in _LIBRARIES:
        return True
    return _is_imported_there(file, tuple(part for part in module if part), alias.name)


def _is_imported_there(file: File, module: tuple[str, ...], name: str) -> bool:
    """Whether another file of the project imports the name, and does not assign it."""
    other = file.project.module(module, file.path)
    if other is None or other is file:
        return False
    bound = other.index.module.names.get(name, ())
    return bool(bound) and all(
        isinstance(alias, ast.alias) and _is_from_library(other, alias) for alias in bound
    )
