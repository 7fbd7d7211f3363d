"""Mentions of pmap: the pmaps of libraries, and calls that only have the name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from shardlift.source.libraries import LIBRARIES, PARTIALS, PMAPS
from shardlift.source.reaching import reaching_bindings
from shardlift.source.scopes import last_name
from shardlift.source.values import Argument, External, Known, Unknown, Value
from shardlift.source.wrappers import as_transform

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
        parent = file.index.parents.get(name)
        is_inspected = isinstance(parent, ast.Attribute) or file.called(parent) in _INSPECTIONS
        if not is_inspected and _is_imported(file, name):
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


def _use(file: File, name: Name) -> tuple[Use, ast.expr]:
    parent = file.index.parents.get(name)
    if is_decorator(file, name):
        return Use.DECORATOR, name
    if isinstance(parent, ast.Compare):
        return Use.COMPARED, name
    if isinstance(parent, ast.Call):
        if parent.func is name:
            return Use.CALL, parent
        is_partial = file.called(parent) in PARTIALS and len(parent.args) == 1
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


class MappedBy(StrEnum):
    """What maps the function."""

    TABLE = "table"  # backend()["pmap"](f)
    LIBRARY = "library"  # a pmap from a module that is not part of the project
    FUNCTION = "function"  # a function of the project named pmap that calls one of these


@dataclass(frozen=True, eq=False)
class Unfollowed:
    """A call of a function named pmap that cannot be followed to the pmap of a library.

    The function is from a table (`backend()["pmap"](f)`), from a module that is not part of the
    project, or from the project and does one of these. Such calls are pmap sites too: the program
    is not yet migrated.
    """

    call: ast.Call
    by: MappedBy
    name: str  # as the program writes it


def find_unfollowed(file: File) -> Iterator[Unfollowed]:
    """Find every call of something named pmap that cannot be followed."""
    for call in file.index.nodes(ast.Call):
        if _is_entry(file, call.func):
            yield Unfollowed(call, MappedBy.TABLE, file.brief(call.func))
        elif last_name(call.func) == "pmap":
            values = file.values(call.func)
            if any(as_transform(value) for value in values):
                continue
            if any(isinstance(value, Known) and _maps(value) for value in values):
                yield Unfollowed(call, MappedBy.FUNCTION, file.brief(call.func))
            elif any(_is_foreign(file, call.func, value) for value in values):
                yield Unfollowed(call, MappedBy.LIBRARY, file.brief(call.func))


def _is_entry(file: File, node: ast.expr) -> bool:
    """`table["pmap"]`, unless the table is written out: then pmap is named there."""
    if not isinstance(node, ast.Subscript) or isinstance(file.definition(node.value), ast.Dict):
        return False
    return isinstance(node.slice, ast.Constant) and node.slice.value == "pmap"


def _maps(function: Known) -> bool:
    """Whether a function calls something named pmap."""
    calls = (node for node in ast.walk(function.node) if isinstance(node, ast.Call))
    return any(_is_entry(function.file, c.func) or last_name(c.func) == "pmap" for c in calls)


def _is_foreign(file: File, node: ast.expr, value: Value) -> bool:
    """Whether a value comes from another module, in a file that uses JAX."""
    if "jax" not in file.source.text:
        return False
    if isinstance(value, External):
        return value.path.partition(".")[0] not in LIBRARIES
    # `library.pmap(f)`, where `library` is a parameter or is not known.
    bases = file.values(node.value) if isinstance(node, ast.Attribute) else ()
    return any(isinstance(base, (Unknown, Argument)) for base in bases)
