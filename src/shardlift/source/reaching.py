"""Which bindings of a name can be the one that a use of it sees.

An approximation, in the order of the text: the last binding above the use that is certain to
have run, and those in between that may have. Inside a loop, what the loop binds further down too.
"""

from __future__ import annotations

import ast

from shardlift.source.scopes import LOOPS, Index, Scope, end, position

_Guard = tuple[ast.AST, str]
_TRIES = (ast.Try, ast.TryStar)
_LEAVES = (ast.Raise, ast.Return, ast.Continue, ast.Break)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_END = (1 << 60, 0)  # after everything that is written


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


def every_reaching(index: Index, use: ast.Name) -> list[ast.AST]:
    """As `reaching`, but where the order cannot be told from the text, every binding there is.

    That is so for names of an outer function or of the module, which may be read before they are
    bound anew, and for those that a function binds by `global` or `nonlocal`.
    """
    if any(use.id in node.names for node in index.nodes(ast.Nonlocal)):
        return []
    scope: Scope | None = index.scope_of[use]
    crossed = False
    while scope is not None:
        bound = scope.names.get(use.id)
        if bound and not (crossed and isinstance(scope.node, ast.ClassDef)):
            elsewhere = any(index.scope_of.get(node, scope) is not scope for node in bound)
            return list(bound) if crossed or elsewhere else reaching(index, use)
        crossed = crossed or not scope.is_comprehension
        scope = scope.parent
    return []


def afterwards(index: Index, bound: list[ast.AST]) -> list[ast.AST]:
    """Seen from a function that runs later: back to the last binding that always happens."""
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
    # An earlier turn may have bound it further down, or in the branch that this turn does not take.
    for node in bound if loops else ():
        if node not in result and set(loops) & set(guards(index, node)):
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
        branch = _branch(parent, node)
        if branch is not None:
            found.append((parent, branch))
    return tuple(found)


def _branch(parent: ast.AST, node: ast.AST) -> str | None:
    """The part of a statement that a node is in, if that may be left out."""
    where = position(node)
    if isinstance(parent, (ast.ExceptHandler, ast.match_case, *_COMPREHENSIONS)):
        return "body"
    if isinstance(parent, ast.BoolOp):
        return "body" if where > end(parent.values[0]) else None
    if isinstance(parent, ast.IfExp):
        return "body" if where < position(parent.test) else _after(parent.test, where)
    if isinstance(parent, ast.With):
        return "body" if _swallows(parent) and where >= position(parent.body[0]) else None
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


def _swallows(node: ast.With) -> bool:
    """`with suppress(…)`: what is inside may end early, and the program goes on."""
    calls = (item.context_expr for item in node.items)
    functions = (call.func for call in calls if isinstance(call, ast.Call))
    return any(getattr(f, "attr", getattr(f, "id", "")) == "suppress" for f in functions)


def _is_over(guard: _Guard, here: tuple[int, int]) -> bool:
    """Whether a place is only reached if the body of a try before it was run to its end."""
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
