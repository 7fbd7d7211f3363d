"""The branches and loops that decide whether a node runs."""

from __future__ import annotations

import ast

from shardlift.source.reaching import may_end_early
from shardlift.source.scopes import COMPREHENSIONS, LOOPS, Index

Guard = tuple[ast.AST, str]
_BRANCHES = (ast.If, *LOOPS, ast.Try, ast.TryStar)  # a `finally` runs, and handlers are nodes


def guards(index: Index, node: ast.AST) -> tuple[Guard, ...]:
    """The branches and loops around a node, up to the nearest function or class."""
    guards: list[Guard] = []
    for parent in index.ancestors(node):
        if parent in index.opens and not index.opens[parent].is_comprehension:
            break
        branch = _branch(parent, node)
        if branch is not None:
            guards.append((parent, branch))
        node = parent
    return tuple(guards)


def _branch(parent: ast.AST, child: ast.AST) -> str | None:
    """The part of its parent that a node is in, if that part may not run."""
    if isinstance(parent, (ast.ExceptHandler, ast.match_case, *COMPREHENSIONS)):
        return "body"
    if isinstance(parent, ast.BoolOp):
        return "body" if child is not parent.values[0] else None
    if isinstance(parent, ast.IfExp):
        return "body" if child is parent.body else "orelse" if child is parent.orelse else None
    if isinstance(parent, ast.With) and child in parent.body:
        return "body" if may_end_early(parent) else None
    if isinstance(parent, _BRANCHES):
        return next((name for name in ("body", "orelse") if child in getattr(parent, name)), None)
    return None
