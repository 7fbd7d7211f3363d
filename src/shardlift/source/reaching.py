"""Which bindings of a name can be the one that a use of it sees.

An approximation, in the order of the text: the last binding above the use that is certain to
have run, and those in between that may have. Inside a loop, what the loop binds further down too.
"""

from __future__ import annotations

import ast

from shardlift.source.scopes import LOOPS, Index, Scope, end, position

_Guard = tuple[ast.AST, str]


def reaching(index: Index, use: ast.Name) -> list[ast.AST]:
    """The nodes that may have bound the name where it is used."""
    scope: Scope | None = index.scope_of[use]
    crossed = False
    while scope is not None:
        bound = scope.names.get(use.id)
        if bound and not (crossed and isinstance(scope.node, ast.ClassDef)):
            if len(bound) == 1:
                return bound
            return afterwards(index, bound) if crossed else _before(index, bound, use)
        crossed = crossed or not scope.is_comprehension
        scope = scope.parent
    return []


def afterwards(index: Index, bound: list[ast.AST]) -> list[ast.AST]:
    """Seen from a function that runs later: back to the last binding that always happens."""
    result: list[ast.AST] = []
    for node in reversed(bound):
        result.append(node)
        if not guards(index, node):
            break
    return result


def _before(index: Index, bound: list[ast.AST], use: ast.Name) -> list[ast.AST]:
    here, around = position(use), guards(index, use)
    result: list[ast.AST] = []
    certain: ast.AST | None = None
    seen_from = [_takes_effect(index, node) for node in bound]
    above = [node for node, start in zip(bound, seen_from, strict=True) if start <= here]
    for node in reversed(above):
        conditions = guards(index, node)
        if _exclusive(conditions, around):
            continue
        result.append(node)
        if set(conditions) <= set(around):
            certain = node
            break
    loops = [guard for guard in around if isinstance(guard[0], LOOPS)]
    if certain is not None:
        inside = set(guards(index, certain))
        loops = [guard for guard in loops if guard not in inside]
    for node, start in zip(bound, seen_from, strict=True) if loops else ():
        if start > here and set(loops) & set(guards(index, node)):
            result.append(node)
    return result or list(bound)


def guards(index: Index, node: ast.AST) -> tuple[_Guard, ...]:
    """The branches and loops, up to the nearest function or class, that decide whether it runs."""
    known = index.guards.get(node)
    if known is None:
        known = index.guards[node] = _guards(index, node)
    return known


def _guards(index: Index, node: ast.AST) -> tuple[_Guard, ...]:
    found: list[_Guard] = []
    for parent in index.ancestors(node):
        if parent in index.opens and not index.opens[parent].is_comprehension:
            break
        if isinstance(parent, (ast.If, *LOOPS, ast.ExceptHandler, ast.match_case, ast.Try)):
            branch = _branch(parent, node)
            if branch is not None:
                found.append((parent, branch))
    return tuple(found)


def _branch(parent: ast.AST, node: ast.AST) -> str | None:
    where = position(node)
    if isinstance(parent, (ast.ExceptHandler, ast.match_case)):
        return "body"
    body: list[ast.stmt] = getattr(parent, "body", [])
    orelse: list[ast.stmt] = getattr(parent, "orelse", [])
    if isinstance(parent, ast.Try):
        # The body of a try and its finally are taken to run; handlers count for themselves.
        return "orelse" if orelse and position(orelse[0]) <= where <= end(orelse[-1]) else None
    if orelse and where >= position(orelse[0]):
        return "orelse"
    return "body" if body and where >= position(body[0]) else None


def _exclusive(one: tuple[_Guard, ...], other: tuple[_Guard, ...]) -> bool:
    branches = dict(other)
    return any(
        isinstance(node, ast.If) and branches.get(node, branch) != branch for node, branch in one
    )


def _takes_effect(index: Index, node: ast.AST) -> tuple[int, int]:
    """From where on a binding can be seen: `f = g(f)` binds `f` after the call."""
    known = index.effective.get(node)
    if known is None:
        known = index.effective[node] = _effect(index, node)
    return known


def _effect(index: Index, node: ast.AST) -> tuple[int, int]:
    if isinstance(node, (ast.arg, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return position(node)
    for parent in index.ancestors(node):
        if isinstance(parent, (ast.For, ast.AsyncFor)):
            return end(parent.iter)
        if isinstance(parent, ast.comprehension):
            return 0, 0
        if isinstance(parent, (ast.With, ast.AsyncWith, ast.ExceptHandler, ast.match_case)):
            return position(node)
        if isinstance(parent, (ast.stmt, ast.NamedExpr)):
            return end(parent)
    return position(node)
