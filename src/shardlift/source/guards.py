"""The branches and loops that decide whether a node runs."""

from __future__ import annotations

import ast

from shardlift.source.reaching import may_end_early
from shardlift.source.scopes import COMPREHENSIONS, LOOPS, Index, end, position

Guard = tuple[ast.AST, str]
_TRIES = (ast.Try, ast.TryStar)


def guards(index: Index, node: ast.AST) -> tuple[Guard, ...]:
    """Those around a node, up to the nearest function or class, each with the branch it is in."""
    found: list[Guard] = []
    for parent in index.ancestors(node):
        if parent in index.opens and not index.opens[parent].is_comprehension:
            break
        branch = _branch(parent, node)
        if branch is not None:
            found.append((parent, branch))
    return tuple(found)


def _branch(parent: ast.AST, node: ast.AST) -> str | None:
    """The part of a statement that a node is in, if that may be left out."""
    where = position(node)
    if isinstance(parent, (ast.ExceptHandler, ast.match_case, *COMPREHENSIONS)):
        return "body"
    if isinstance(parent, ast.BoolOp):
        return "body" if where > end(parent.values[0]) else None
    if isinstance(parent, ast.IfExp):
        return "body" if where < position(parent.test) else _after(parent.test, where)
    if isinstance(parent, ast.With):
        return "body" if may_end_early(parent) and where >= position(parent.body[0]) else None
    if not isinstance(parent, (ast.If, *LOOPS, *_TRIES)):
        return None
    if isinstance(parent, _TRIES):
        # What is in a finally runs; handlers count for themselves.
        parts = [("body", parent.body), ("orelse", parent.orelse)]
        inside = (name for name, part in parts if part and _holds(part, where))
        return next(inside, None)
    if parent.orelse and where >= position(parent.orelse[0]):
        return "orelse"
    return "body" if where >= position(parent.body[0]) else None


def _after(test: ast.expr, where: tuple[int, int]) -> str | None:
    return "orelse" if where > end(test) else None


def _holds(part: list[ast.stmt], where: tuple[int, int]) -> bool:
    return position(part[0]) <= where <= end(part[-1])
