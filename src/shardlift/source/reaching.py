"""Reaching bindings: which assignments, imports and definitions a use of a name may refer to.

The statements of one scope are walked in the order in which they run, and loops until nothing
changes, for one name at a time: only statements that have the name, or that jump, are looked at.
A function that is called later sees the bindings at the end of the scopes around it.
"""

import ast
import contextlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardlift.source.scopes import (
    COMPREHENSIONS,
    DEFINITIONS,
    LOOPS,
    Index,
    Scope,
    last_name,
    position,
)

Bindings = frozenset[ast.AST]
_NONE: Bindings = frozenset()
Guard = tuple[ast.AST, str]
_BRANCHES = (ast.If, *LOOPS, ast.Try, ast.TryStar)  # a `finally` runs, and handlers are nodes


def reaching_bindings(index: Index, use: ast.Name) -> list[ast.AST]:
    """The nodes that may have bound the name where it is used."""
    scope, is_outer = index.binding_scope(use)
    if scope is None:
        return []
    bound = scope.names[use.id]
    if len(bound) == 1 or scope.is_comprehension:
        return bound
    bindings = at_end(index, scope, use.id) if is_outer else within_scope(index, scope, use)
    if not any(isinstance(node, ast.alias) for node in bindings):
        return bindings
    return [node for node in bindings if not _is_placeholder(index, node)]


def _is_placeholder(index: Index, node: ast.AST) -> bool:
    """Whether a binding is the `jax = None` of a file in which an import is optional."""
    parent = index.parents.get(node)
    value = parent.value if isinstance(parent, ast.Assign) else None
    return isinstance(value, ast.Constant) and value.value is None


def within_scope(index: Index, scope: Scope, use: ast.Name) -> list[ast.AST]:
    """The bindings of a scope that reach a use in it; all of them if the use is never reached."""
    reached = _reached(index, scope, use.id)
    return reached.in_order(reached.reads.get(use))


def at_end(index: Index, scope: Scope, name: str) -> list[ast.AST]:
    """The bindings of a name at the end of a scope."""
    reached = _reached(index, scope, name)
    return reached.in_order(reached.end)


def after_definition(index: Index, scope: Scope, definition: ast.AST, name: str) -> list[ast.AST]:
    """The bindings of a scope that the body of a function or class defined in it may read.

    It runs after its definition: what was bound to the name before, and is not any more where it
    is defined, it never sees.
    """
    bound = scope.names[name]
    above = itertools.takewhile(lambda node: node is not scope.node, index.ancestors(definition))
    if len(bound) == 1 or any(isinstance(node, LOOPS) for node in above):
        return list(bound)
    reached = _reached(index, scope, name, definition).reads.get(definition)
    defined = position(definition)
    return [n for n in bound if reached is None or n in reached or position(n) > defined]


def may_end_early(node: ast.With | ast.AsyncWith) -> bool:
    """Whether a `with` uses `suppress(…)`: its body may stop early while the program goes on."""
    calls = (item.context_expr for item in node.items)
    functions = (call.func for call in calls if isinstance(call, ast.Call))
    return any(last_name(function) == "suppress" for function in functions)


@dataclass
class Reached:
    """The bindings of one name that reach each of its uses, and the end of its scope."""

    order: dict[ast.AST, int]  # the places of all bindings in the text
    reads: dict[ast.AST, Bindings] = field(default_factory=dict)
    end: Bindings = _NONE

    def in_order(self, bindings: Bindings | None) -> list[ast.AST]:
        """Some bindings, or all of them if there are none, in the order of the text."""
        return sorted(bindings or self.order, key=self.order.__getitem__)


def _reached(index: Index, scope: Scope, name: str, definition: ast.AST | None = None) -> Reached:
    key, bound = (scope, name, definition), scope.names[name]
    if key not in index.memo:
        order = {node: place for place, node in enumerate(bound)}
        index.memo[key] = Reached(order)
        if len(bound) > 1:
            # Hundreds of nested branches are too deep: any binding may reach.
            with contextlib.suppress(RecursionError):
                index.memo[key] = _Flow(index, scope, name, definition, Reached(order)).walk()
    reached: Reached = index.memo[key]
    return reached


class _Flow:
    """A walk along the statements of a scope, with the bindings that one name has at each."""

    def __init__(
        self, index: Index, scope: Scope, name: str, definition: ast.AST | None, reached: Reached
    ) -> None:
        """`definition` is a function or class whose place counts as a use of the name."""
        self._index, self._scope, self._name, self._definition = index, scope, name, definition
        self._reached = reached  # filled by `walk`
        # Deleting a name does not bind it.
        bound = scope.names[name]
        self._bound = {n for n in bound if not isinstance(getattr(n, "ctx", None), ast.Del)}
        self._env: Bindings | None = _NONE  # the bindings here; None where nothing runs
        self._jumps: dict[type[ast.AST], Bindings | None] = {}  # those at each kind of jump
        # Where expressions and statements have the name, and the statements of each block that
        # have it, or a jump.
        self._inside: defaultdict[ast.AST | None, list[ast.AST]] = defaultdict(list)
        blocks: defaultdict[ast.AST, set[ast.stmt]] = defaultdict(set)
        uses = (use for use in index.names_in.get((scope, name), ()) if self._is_mine(use))
        for place in dict.fromkeys((*uses, *bound)):
            for node in self._up_from(place):
                self._inside[node].append(place)
                if isinstance(node, ast.stmt):
                    blocks[index.parents[node]].add(node)
        others = index.jumps.get(scope.node, [])
        for other in [*others, definition] if definition is not None else others:
            for node in self._up_from(other):
                if isinstance(node, ast.stmt):
                    if node in blocks[index.parents[node]]:
                        break
                    blocks[index.parents[node]].add(node)
        self._blocks = {node: sorted(block, key=position) for node, block in blocks.items()}

    def _up_from(self, node: ast.AST) -> Iterator[ast.AST]:
        """A node and those around it in the scope."""
        while node is not self._scope.node:
            yield node
            node = self._index.parents[node]

    def _is_mine(self, use: ast.Name) -> bool:
        """Whether no comprehension around a use binds its name."""
        scope = self._index.scope_of[use]
        while scope is not self._scope and scope.parent is not None:
            if use.id in scope.names:
                return False
            scope = scope.parent
        return True

    def walk(self) -> Reached:
        """Walk the statements of the scope in the order in which they run."""
        self._bind(node for node in self._bound if isinstance(node, ast.arg))
        body = getattr(self._scope.node, "body", [])
        if isinstance(body, ast.expr):
            self._evaluate(body)
        else:
            self._block(body)
        self._reached.end = _join(self._jumps.get(ast.Return), self._env) or _NONE
        return self._reached

    def _bind(self, nodes: Iterable[ast.AST]) -> None:
        """Forget all bindings for those among some nodes, if there are any."""
        if bindings := self._bound.intersection(nodes):
            self._env = frozenset(bindings)

    def _read(self, use: ast.AST) -> None:
        self._reached.reads[use] = self._reached.reads.get(use, _NONE) | (self._env or _NONE)

    def _evaluate(self, *nodes: ast.AST | None) -> None:
        """Read the name in expressions. A `:=` in one may bind it before it is read."""
        for node in nodes:
            places = self._inside.get(node, ())
            walruses = [place for place in places if self._is_walrus(place)]
            self._env = (self._env or _NONE).union(walruses)
            for place in places:
                if isinstance(place, ast.Name):
                    self._read(place)

    def _is_walrus(self, node: ast.AST) -> bool:
        return node in self._bound and isinstance(self._index.parents.get(node), ast.NamedExpr)

    def _after_any_part(self, *nodes: ast.AST) -> Bindings:
        """The bindings if any part of some statements or patterns has run."""
        inside = (place for node in nodes for place in self._inside.get(node, ()))
        return (self._env or _NONE) | self._bound.intersection(inside)

    # ---- statements

    def _block(self, body: Sequence[ast.stmt]) -> None:
        if not body:
            return
        first, last = position(body[0]), position(body[-1])
        for statement in self._blocks.get(self._index.parents[body[0]], ()):
            if self._env is not None and first <= position(statement) <= last:
                _STATEMENTS.get(type(statement), _Flow._simple)(self, statement)

    def _simple(self, node: ast.stmt) -> None:
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        others = [child for child in ast.iter_child_nodes(node) if child not in targets]
        self._evaluate(*others, *targets)
        self._bind(place for place in self._inside[node] if not self._is_walrus(place))

    def _delete(self, node: ast.Delete) -> None:
        self._evaluate(*node.targets)
        if any(isinstance(t, ast.Name) and t.id == self._name for t in node.targets):
            self._env = _NONE

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self._evaluate(node)
        if node is self._definition:
            self._read(node)
        # A function that declares the name global or nonlocal may bind it from here on.
        self._bind(place for place in self._inside[node] if not self._is_walrus(place))

    def _jump(self, node: ast.Return | ast.Raise | ast.Break | ast.Continue) -> None:
        self._simple(node)
        self._leave(type(node), self._env)
        self._env = None

    def _leave(self, kind: type[ast.AST], env: Bindings | None) -> None:
        self._jumps[kind] = _join(self._jumps.get(kind), env)

    def _expression(self, node: ast.Expr) -> None:
        self._simple(node)
        if _exits(self._index, node.value):
            self._env = None

    def _if(self, node: ast.If) -> None:
        self._evaluate(node.test)
        self._branches(lambda: self._block(node.body), lambda: self._block(node.orelse))

    def _branches(self, *ways: Callable[[], None]) -> None:
        """Walk alternative paths from here, and join their bindings."""
        before, ends = self._env, []
        for way in ways:
            self._env = before
            way()
            ends.append(self._env)
        self._env = _join(*ends)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        if not isinstance(node, ast.While):
            self._evaluate(node.iter)
        outer, before, head = self._jumps, None, self._env
        while head != before:
            self._jumps, self._env, before = {}, head, head
            if isinstance(node, ast.While):
                self._evaluate(node.test)
            else:
                self._evaluate(node.target)
                self._bind(self._inside.get(node.target, ()))
            self._block(node.body)
            head = _join(before, self._jumps.get(ast.Continue), self._env)
        inner, self._jumps, self._env = self._jumps, outer, head
        self._leave(ast.Return, inner.get(ast.Return))
        if isinstance(node, ast.While):
            self._evaluate(node.test)
            if isinstance(node.test, ast.Constant) and node.test.value:
                self._env = None
        self._block(node.orelse)
        self._env = _join(inner.get(ast.Break), self._env)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self._evaluate(item.context_expr, item.optional_vars)
            self._bind(self._inside.get(item.optional_vars, ()))
        partly = self._after_any_part(*node.body) if may_end_early(node) else None
        self._block(node.body)
        self._env = _join(self._env, partly)

    def _try(self, node: ast.Try | ast.TryStar) -> None:
        thrown, partly = self._after_any_part(*node.body), self._after_any_part(node)
        outer, self._jumps = self._jumps, {}

        def handle(handler: ast.ExceptHandler) -> None:
            self._env = thrown
            self._evaluate(handler.type)
            self._bind([handler])
            self._block(handler.body)

        handlers = [lambda handler=handler: handle(handler) for handler in node.handlers]
        self._branches(lambda: self._block([*node.body, *node.orelse]), *handlers)
        # `finally` runs after an exception, after a jump, and after the end.
        inner, self._jumps, end = self._jumps, outer, self._env
        for kind, env in {**inner, ast.Raise: partly}.items():
            self._env = env
            self._block(node.finalbody)
            self._leave(kind, self._env)
        self._env = end
        self._block(node.finalbody)

    def _match(self, node: ast.Match) -> None:
        self._evaluate(node.subject)
        # A pattern that does not match may have bound some of its names.
        self._env = self._after_any_part(*(case.pattern for case in node.cases))

        def take(case: ast.match_case) -> None:
            self._bind(self._inside.get(case.pattern, ()))
            self._evaluate(case.pattern, case.guard)
            self._block(case.body)

        cases = [lambda case=case: take(case) for case in node.cases]
        self._branches(*cases, lambda: None)


_STATEMENTS: dict[type[ast.AST], Callable[[_Flow, Any], None]] = {
    **dict.fromkeys(DEFINITIONS, _Flow._define),
    **dict.fromkeys(LOOPS, _Flow._loop),
    ast.Delete: _Flow._delete,
    **dict.fromkeys((ast.Return, ast.Raise, ast.Break, ast.Continue), _Flow._jump),
    ast.Expr: _Flow._expression,
    ast.If: _Flow._if,
    **dict.fromkeys((ast.With, ast.AsyncWith), _Flow._with),
    **dict.fromkeys((ast.Try, ast.TryStar), _Flow._try),
    ast.Match: _Flow._match,
}


def _join(*ends: Bindings | None) -> Bindings | None:
    """The bindings at the end of several paths; None if none of them gets there."""
    reached = [end for end in ends if end is not None]
    return frozenset().union(*reached) if reached else None


def _exits(index: Index, node: ast.expr) -> bool:
    """`sys.exit(...)`, which raises SystemExit."""
    function = node.func if isinstance(node, ast.Call) else None
    if not isinstance(function, ast.Attribute) or function.attr != "exit":
        return False
    module, bound = function.value, index.module.names.get("sys", [])
    if not isinstance(module, ast.Name) or module.id != "sys" or len(bound) != 1:
        return False
    is_import = isinstance(bound[0], ast.alias) and bound[0].name == "sys"
    return is_import and index.binding_scope(module)[0] is index.module


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
