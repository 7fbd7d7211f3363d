"""Reaching bindings: which assignments, imports and definitions a use of a name may refer to.

An approximation in source order: the last binding above the use that has certainly run, and the
bindings in between that may have run. Inside a loop, also those further down in the loop.
"""

from __future__ import annotations

import ast

from shardlift.source.scopes import COMPREHENSIONS, LOOPS, Index, end, position

_Guard = tuple[ast.AST, str]
_TRIES = (ast.Try, ast.TryStar)
_LEAVES = (ast.Raise, ast.Return, ast.Continue, ast.Break)
_END = (1 << 60, 0)  # after the last line


def reaching(index: Index, use: ast.Name) -> list[ast.AST]:
    """The nodes that may have bound the name where it is used."""
    scope, is_outer = index.binding_scope(use)
    bound = scope.names[use.id] if scope is not None else []
    if len(bound) < 2:
        return bound
    return afterwards(index, bound) if is_outer else _before(index, bound, use)


def every_reaching(index: Index, use: ast.Name) -> list[ast.AST]:
    """Like `reaching`, but every binding where the source order does not decide.

    That is the case for names of an outer function or of the module, which may be read before they
    are bound again, and for names that a function binds by `global` or `nonlocal`.
    """
    if any(use.id in node.names for node in index.nodes(ast.Nonlocal)):
        return []
    scope, is_outer = index.binding_scope(use)
    if scope is None:
        return []
    bound = scope.names[use.id]
    is_elsewhere = any(index.scope_of.get(node, scope) is not scope for node in bound)
    return list(bound) if is_outer or is_elsewhere else reaching(index, use)


def afterwards(index: Index, bound: list[ast.AST]) -> list[ast.AST]:
    """The bindings that a function may see which runs later."""
    result: list[ast.AST] = []
    for node in reversed(bound):
        result.append(node)
        if all(_is_over(guard, _END) for guard in guards(index, node)):
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
        if all(guard in around or _is_over(guard, here) for guard in conditions):
            certain = node
            break
    loops = [guard for guard in around if isinstance(guard[0], LOOPS)]
    if certain is not None:
        inside = set(guards(index, certain))
        loops = [guard for guard in loops if guard not in inside]
    # An earlier iteration may have bound the name further down or in another branch.
    for node in bound if loops else ():
        if node not in result and set(loops) & set(guards(index, node)):
            result.append(node)
    return result or list(bound)


def guards(index: Index, node: ast.AST) -> tuple[_Guard, ...]:
    """The branches and loops, up to the nearest function or class, that decide if a node runs."""
    known = index.guards.get(node)
    if known is None:
        known = index.guards[node] = _guards(index, node)
    return known


def _guards(index: Index, node: ast.AST) -> tuple[_Guard, ...]:
    found: list[_Guard] = []
    for parent in index.ancestors(node):
        if parent in index.opens and not index.opens[parent].is_comprehension:
            break
        branch = _branch(parent, node)
        if branch is not None:
            found.append((parent, branch))
    return tuple(found)


def _branch(parent: ast.AST, node: ast.AST) -> str | None:
    """The part of a statement that a node is in, if that part may not run."""
    where = position(node)
    if isinstance(parent, (ast.ExceptHandler, ast.match_case, *COMPREHENSIONS)):
        return "body"
    if isinstance(parent, ast.BoolOp):
        return "body" if where > end(parent.values[0]) else None
    if isinstance(parent, ast.IfExp):
        if where < position(parent.test):
            return "body"
        return "orelse" if where > end(parent.test) else None
    if isinstance(parent, ast.With):
        return "body" if _swallows(parent) and where >= position(parent.body[0]) else None
    if not isinstance(parent, (ast.If, *LOOPS, *_TRIES)):
        return None
    if isinstance(parent, _TRIES):
        # A `finally` always runs; handlers are parents of their own.
        parts = {"body": parent.body, "orelse": parent.orelse}
        inside = (n for n, p in parts.items() if p and position(p[0]) <= where <= end(p[-1]))
        return next(inside, None)
    if parent.orelse and where >= position(parent.orelse[0]):
        return "orelse"
    return "body" if where >= position(parent.body[0]) else None


def _swallows(node: ast.With) -> bool:
    """Whether a `with` uses `suppress(…)`: its body may stop early while the program goes on."""
    calls = (item.context_expr for item in node.items)
    functions = (call.func for call in calls if isinstance(call, ast.Call))
    return any(getattr(f, "attr", getattr(f, "id", "")) == "suppress" for f in functions)


def _is_over(guard: _Guard, here: tuple[int, int]) -> bool:
    """Whether a place is only reached if the body of an earlier `try` ran to its end."""
    node, branch = guard
    if not isinstance(node, _TRIES) or branch != "body" or here <= end(node):
        return False
    return all(isinstance(handler.body[-1], _LEAVES) for handler in node.handlers)


def _exclusive(one: tuple[_Guard, ...], other: tuple[_Guard, ...]) -> bool:
    branches = dict(other)
    return any(
        isinstance(node, ast.If) and branches.get(node, branch) != branch for node, branch in one
    )


def _takes_effect(index: Index, node: ast.AST) -> tuple[int, int]:
    """The position from which a binding is visible: `f = g(f)` binds `f` after the call."""
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
