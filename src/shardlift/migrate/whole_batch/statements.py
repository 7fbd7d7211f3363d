"""How each statement of a step changes the kinds of its names."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from shardlift.migrate.device_axis.cells import Place
from shardlift.migrate.whole_batch.body import Scope, follows
from shardlift.migrate.whole_batch.values import SAME, Code, Value, is_same

_ROUNDS = 4  # of a loop, until the kinds of its names no longer change


@follows(ast.Return)
def _return(s: Scope, node: ast.Return) -> None:
    s.frame.returned.append(s.value(node.value) if node.value is not None else SAME)


@follows(ast.Assign, ast.AnnAssign)
def _assign(s: Scope, node: ast.Assign | ast.AnnAssign) -> None:
    if node.value is not None:
        value = s.value(node.value)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            s.bind(target, value)


@follows(ast.AugAssign)
def _augmented(s: Scope, node: ast.AugAssign) -> None:
    if not isinstance(node.target, ast.Name):
        raise s.refuse(node, "a value is changed in place")
    name = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
    left = s.frame.find(node.target.id) or s.value(name)
    s.bind(node.target, s.operation(node, node.op, left, s.value(node.value)))


@follows(ast.Expr)
def _expression(s: Scope, node: ast.Expr) -> None:
    s.value(node.value)


@follows(ast.FunctionDef)
def _define(s: Scope, node: ast.FunctionDef) -> None:
    s.frame.names[node.name] = Code(node, s.file, s.frame)


@follows(ast.If)
def _if(s: Scope, node: ast.If) -> None:
    s.condition(node.test)
    before = dict(s.frame.names)
    s.block(node.body)
    after, s.frame.names = s.frame.names, before
    s.block(node.orelse)
    _merge(s, after, node)


def _merge(s: Scope, other: Mapping[str, Value], node: ast.AST) -> None:
    at = Place(s.file, node)
    for name, value in other.items():
        mine = s.frame.names.get(name, value)
        s.frame.names[name] = s.joined([mine, value], at)


@follows(ast.For)
def _for(s: Scope, node: ast.For) -> None:
    element = s.element(node.iter)
    for _ in range(_ROUNDS):
        before = dict(s.frame.names)
        s.bind(node.target, element)
        s.block(node.body)
        _merge(s, before, node)
        if s.frame.names == before:
            break
    else:
        raise s.refuse(node, "the values of a loop change their kind")
    s.block(node.orelse)


@follows(ast.With)
def _with(s: Scope, node: ast.With) -> None:
    for item in node.items:
        if not is_same([s.value(item.context_expr)]) or item.optional_vars is not None:
            raise s.refuse(node, "the context is not followed")
    s.block(node.body)


@follows(ast.Assert)
def _assert(s: Scope, node: ast.Assert) -> None:
    s.condition(node.test)


@follows(ast.Pass, ast.Import, ast.ImportFrom)
def _nothing(s: Scope, node: ast.stmt) -> None:
    """`pass`, an import, an assertion: no value changes its kind."""
