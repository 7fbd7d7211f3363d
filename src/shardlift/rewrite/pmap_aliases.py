"""What is needed of `spmd_map` by a name that stands for pmap: `pmap = partial(jax.pmap, …)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from shardlift.rewrite.options import NotLiteralError, Options, UnsupportedError, read_options
from shardlift.rewrite.site_features import features_of_site
from shardlift.rewrite.spmd_map import Feature
from shardlift.source.file import File
from shardlift.source.mentions import Mention
from shardlift.source.scopes import FUNCTIONS
from shardlift.source.values import Argument, Constant

_PARTIAL = "functools.partial"
_SCOPES = (*FUNCTIONS, ast.ClassDef)


class Alias(NamedTuple):
    """A name that stands for pmap, and the options that are fixed with it."""

    name: str
    options: Options
    function: ast.AST | None = None  # whose local variable it is


def find_alias(file: File, mention: Mention) -> Alias | None:
    """The name or attribute that pmap is assigned to, perhaps as one of two: `pmap if a else b`."""
    call = _partial_of(file, mention.name)
    value: ast.AST | None = call or mention.name
    statement = file.index.parents.get(call or mention.name)
    while isinstance(statement, ast.IfExp) and statement.test is not value:
        value, statement = statement, file.index.parents.get(statement)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    try:
        options = read_options(file, call, skip=1) if call else Options(file, None, {})
    except (NotLiteralError, UnsupportedError):
        return None
    target = statement.targets[0]
    if isinstance(target, ast.Attribute):
        return Alias(target.attr, options)
    if not isinstance(target, ast.Name):
        return None
    function = next((n for n in file.index.ancestors(target) if isinstance(n, _SCOPES)), None)
    if function is None or isinstance(function, ast.ClassDef):
        return Alias(target.id, options)
    others = [n for n in ast.walk(function) if isinstance(n, (ast.Global, ast.Nonlocal))]
    if any(target.id in node.names for node in others):
        return Alias(target.id, options)  # of the module, or of a function around
    return Alias(target.id, options, function)


def features_of_alias(file: File, alias: Alias) -> frozenset[Feature] | None:
    """What the calls of such a name in all files need; None if it is not only called.

    The calls are found by the name alone: one of something else asks for too much at most.
    """
    try:
        calls = (
            _local_calls(file, alias.function, alias.name)
            if alias.function
            else _calls(file, alias.name)
        )
        used = [alias.options, *calls]
        return frozenset({Feature.REMAPPED}).union(*map(features_of_site, used))
    except (NotLiteralError, UnsupportedError):
        return None


def _local_calls(file: File, function: ast.AST, alias: str) -> Iterator[Options]:
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == alias and isinstance(node.ctx, ast.Load):
            yield _use(file, node)


def _calls(file: File, alias: str) -> Iterator[Options]:
    """The options of every use of a name; raises `NotLiteralError` at one that is not a call."""
    for other in file.project.files_with(alias):
        for imported in other.index.nodes(ast.alias):
            if imported.name.rpartition(".")[2] == alias and imported.asname not in (None, alias):
                raise NotLiteralError(f"{alias} is imported by another name")
        for name in other.index.nodes(ast.Name):
            if name.id == alias and isinstance(name.ctx, ast.Load) and not _is_other(other, name):
                yield _use(other, name)
        for attribute in other.index.nodes(ast.Attribute):
            is_jax = attribute.attr == alias and other.name(attribute.value) == "jax"
            if attribute.attr == alias and isinstance(attribute.ctx, ast.Load) and not is_jax:
                yield _use(other, attribute)


def _is_other(file: File, name: ast.Name) -> bool:
    """Whether a name belongs to a parameter or a constant: `def f(pmap=True)`."""
    values = file.values(name)
    return bool(values) and all(isinstance(value, (Argument, Constant)) for value in values)


def _use(file: File, node: ast.expr) -> Options:
    parent = file.index.parents.get(node)
    if isinstance(parent, ast.Call) and parent.func is node:
        return read_options(file, parent)
    call = _partial_of(file, node)
    if call is not None:
        return read_options(file, call, skip=1)
    if node in getattr(parent, "decorator_list", ()) or isinstance(parent, ast.Attribute):
        return Options(file, None, {})
    raise NotLiteralError("it is handed on")


def _partial_of(file: File, node: ast.expr) -> ast.Call | None:
    """The `functools.partial(node, …)` that a node stands in."""
    call = file.index.parents.get(node)
    if not isinstance(call, ast.Call) or not call.args or call.args[0] is not node:
        return None
    return call if file.called(call) == _PARTIAL else None
