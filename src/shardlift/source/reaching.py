"""Reaching bindings: which assignments, imports and definitions a use of a name may refer to.

The statements of one scope are walked in the order in which they run, and loops until nothing
changes. A function that is called later sees the bindings at the end of the scopes around it.
"""

from __future__ import annotations

import ast
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import Any

from shardlift.source.scopes import DEFINITIONS, LOOPS, Index, Scope, last_name, position

_NONE: frozenset[ast.AST] = frozenset()


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
    bound = scope.names[use.id]
    if len(bound) == 1:
        return list(bound)
    flow = _flow(index, scope)
    return flow.in_order(flow.reads.get(use)) or list(bound)


def after_definition(index: Index, scope: Scope, definition: ast.AST, name: str) -> list[ast.AST]:
    """The bindings of a scope that the body of a function or class defined in it may read.

    It runs after its definition: what was bound to the name before, and is not any more where it
    is defined, it never sees.
    """
    bound = scope.names[name]
    reached = _flow(index, scope).definitions.get(definition)
    above = itertools.takewhile(lambda node: node is not scope.node, index.ancestors(definition))
    if reached is None or len(bound) == 1 or any(isinstance(node, LOOPS) for node in above):
        return list(bound)
    defined = position(definition)
    at_first = reached.get(name)
    return [node for node in bound if node in at_first or position(node) > defined]


def at_end(index: Index, scope: Scope, name: str) -> list[ast.AST]:
    """The bindings of a name at the end of a scope."""
    bound = scope.names[name]
    if len(bound) == 1:
        return list(bound)
    flow = _flow(index, scope)
    return flow.in_order(flow.end.get(name)) or list(bound)


def _flow(index: Index, scope: Scope) -> Flow:
    known = index.flows.get(scope)
    if known is None:
        known = index.flows[scope] = Flow(index, scope)
        try:
            known.walk()
        except RecursionError:  # hundreds of nested branches: any binding may reach
            known.reads, known.end, known.definitions = {}, Env(), {}
    assert isinstance(known, Flow)
    return known


class Env:
    """The bindings of each name at one place. Copies share the parts in which they are equal.

    So an `if` costs little in a module with thousands of names that are bound twice.
    """

    __slots__ = ("_parts",)
    _SIZE = 64  # names in a part

    def __init__(self, names: int = 0) -> None:
        """Without bindings, for about so many names."""
        self._parts: list[dict[str, frozenset[ast.AST]]] = [{}] * (1 + names // self._SIZE)

    def get(self, name: str) -> frozenset[ast.AST]:
        """The bindings of a name."""
        return self._parts[hash(name) % len(self._parts)].get(name, _NONE)

    def set(self, name: str, bindings: frozenset[ast.AST]) -> None:
        """Replace the bindings of a name."""
        place = hash(name) % len(self._parts)
        self._parts[place] = {**self._parts[place], name: bindings}

    def copy(self) -> Env:
        """The same bindings, to go on from."""
        copy = Env()
        copy._parts = self._parts.copy()
        return copy

    def join(self, other: Env) -> Env:
        """The bindings of both."""
        joined = Env()
        pairs = zip(self._parts, other._parts, strict=True)
        joined._parts = [one if one is two else _union(one, two) for one, two in pairs]
        return joined

    def __eq__(self, other: object) -> bool:
        """Whether all names have the same bindings."""
        return isinstance(other, Env) and self._parts == other._parts

    __hash__ = None  # type: ignore[assignment]


def _union(
    one: dict[str, frozenset[ast.AST]], two: dict[str, frozenset[ast.AST]]
) -> dict[str, frozenset[ast.AST]]:
    return {name: one.get(name, _NONE) | two.get(name, _NONE) for name in {**one, **two}}


class Flow:
    """The bindings that reach each name of one scope that is bound more than once."""

    def __init__(self, index: Index, scope: Scope) -> None:
        """Create an empty result, which `walk` fills."""
        self.reads: dict[ast.Name, frozenset[ast.AST]] = {}
        self.definitions: dict[ast.AST, Env] = {}  # where each function and class is defined
        self._index, self._scope = index, scope
        self._names = {name: set(bound) for name, bound in scope.names.items() if len(bound) > 1}
        self._bound = set(self._bindings())
        several = (bound for bound in scope.names.values() if len(bound) > 1)
        self._order = {node: place for bound in several for place, node in enumerate(bound)}
        self._inside = self._names_inside()
        self._foreign = self._bound_by_functions()
        self._env = self.end = Env(len(self._names))
        self._alive = True
        # The bindings at each `return`, `raise`, `break` and `continue`.
        self._jumps: defaultdict[type[ast.AST], list[Env]] = defaultdict(list)

    def walk(self) -> None:
        """Walk the statements of the scope in the order in which they run."""
        self._bind(*(one for one in self._bindings() if isinstance(one, ast.arg)))
        body = getattr(self._scope.node, "body", [])
        if isinstance(body, ast.expr):
            self._evaluate(body)
        else:
            self._block(body)
        self.end = self._join([*self._jumps[ast.Return], *self._here()])

    def in_order(self, bindings: Iterable[ast.AST] | None) -> list[ast.AST]:
        """Some bindings of one name in the order of the text."""
        return sorted(bindings or (), key=self._order.__getitem__)

    def _bound_by_functions(self) -> dict[ast.AST, list[ast.AST]]:
        """Bindings by `global` or `nonlocal`, by the function of this scope that contains them."""
        inner: dict[ast.AST, list[ast.AST]] = {}
        for node in self._bindings():
            if self._index.scope_of.get(node, self._scope) is not self._scope:
                for parent in self._index.ancestors(node):
                    if self._index.scope_of.get(parent) is self._scope:
                        inner.setdefault(parent, []).append(node)
        return inner

    # ---- names

    def _bindings(self) -> Iterator[ast.AST]:
        return (node for bound in self._names.values() for node in bound)

    def _bind(self, *nodes: ast.AST) -> None:
        fresh: dict[str, frozenset[ast.AST]] = {}
        for node in nodes:
            name = _bound_name(node)
            if node in self._names.get(name, ()):
                fresh[name] = fresh.get(name, _NONE) | {node}
        for name, bindings in fresh.items():
            self._env.set(name, bindings)

    # ---- expressions

    def _evaluate(self, *nodes: ast.AST | None) -> None:
        """Read the names of expressions. A `:=` in one may bind its name before they are read."""
        for node in nodes:
            inside = self._inside.get(node, ()) if node is not None else ()
            for one in inside:
                if one in self._bound and self._is_walrus(one):
                    name = _bound_name(one)
                    self._env.set(name, self._env.get(name) | {one})
            for one in inside:
                if isinstance(one, ast.Name):
                    self.reads[one] = self.reads.get(one, _NONE) | self._env.get(one.id)

    def _is_walrus(self, node: ast.AST) -> bool:
        return isinstance(self._index.parents.get(node), ast.NamedExpr)

    def _names_inside(self) -> dict[ast.AST, list[ast.AST]]:
        """The nodes that bind or read the names, by each expression and statement around them."""
        uses = self._index.names_in.get(self._scope, ())
        nodes = [use for use in uses if use.id in self._names and self._is_mine(use)]
        others = [node for node in self._bound if not isinstance(node, ast.Name)]
        inside: dict[ast.AST, list[ast.AST]] = {}
        for node in (*nodes, *others):
            around: ast.AST = node
            while True:
                inside.setdefault(around, []).append(node)
                if isinstance(around, ast.stmt) or around not in self._index.parents:
                    break
                around = self._index.parents[around]
        return inside

    def _is_mine(self, node: ast.Name) -> bool:
        """Whether no comprehension around a name binds it."""
        scope = self._index.scope_of[node]
        while scope is not self._scope and scope.parent is not None:
            if node.id in scope.names:
                return False
            scope = scope.parent
        return True

    # ---- statements

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for statement in body:
            if not self._alive:
                break
            _STATEMENTS.get(type(statement), Flow._simple)(self, statement)

    def _simple(self, node: ast.stmt) -> None:
        if node not in self._inside:
            return
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        others = [child for child in ast.iter_child_nodes(node) if child not in targets]
        self._evaluate(*others, *targets)
        self._bind(*(one for one in self._inside[node] if not self._is_walrus(one)))

    def _delete(self, node: ast.Delete) -> None:
        self._evaluate(*node.targets)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._env.set(target.id, _NONE)

    def _definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self._evaluate(node)
        self.definitions[node] = self._env.join(self.definitions.get(node, self._env))
        self._bind(node, *self._foreign.get(node, ()))

    def _jump(self, node: ast.Return | ast.Raise | ast.Break | ast.Continue) -> None:
        self._simple(node)
        self._jumps[type(node)].append(self._env)
        self._alive = False

    def _expression(self, node: ast.Expr) -> None:
        self._simple(node)
        if _exits(self._index, node.value):
            self._jumps[ast.Raise].append(self._env)
            self._alive = False

    def _here(self) -> list[Env]:
        """The bindings here, if this place is reached."""
        return [self._env] if self._alive else []

    def _go_on(self, *ends: Env) -> None:
        """Continue with the bindings of any of several paths."""
        self._env, self._alive = self._join(ends), bool(ends)

    def _join(self, ends: Sequence[Env]) -> Env:
        return reduce(Env.join, ends) if ends else Env(len(self._names))

    def _if(self, node: ast.If) -> None:
        self._evaluate(node.test)
        self._branches([lambda: self._block(node.body), lambda: self._block(node.orelse)])

    def _branches(self, ways: Sequence[Callable[[], None]], before: Env | None = None) -> None:
        """Walk alternative paths, and join their bindings."""
        before, ends = self._env if before is None else before, []
        for way in ways:
            self._env, self._alive = before.copy(), True
            way()
            ends += self._here()
        self._go_on(*ends)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        if not isinstance(node, ast.While):
            self._evaluate(node.iter)
        returns, head = self._jumps[ast.Return], self._env.copy()
        outer = self._jumps
        while True:
            self._jumps = defaultdict(list, {ast.Return: returns})
            self._turn(node, head)
            again = self._join([head, *self._jumps[ast.Continue], *self._here()])
            if again == head:
                break
            head = again
        breaks, self._jumps = self._jumps[ast.Break], outer
        self._go_on(head)
        if isinstance(node, ast.While):
            self._evaluate(node.test)
            self._alive = not (isinstance(node.test, ast.Constant) and node.test.value)
        self._block(node.orelse)
        self._go_on(*breaks, *self._here())

    def _turn(self, node: ast.For | ast.AsyncFor | ast.While, head: Env) -> None:
        self._env, self._alive = head.copy(), True
        if isinstance(node, ast.While):
            self._evaluate(node.test)
        else:
            self._evaluate(node.target)
            self._bind(*ast.walk(node.target))
        self._block(node.body)

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self._evaluate(item.context_expr, item.optional_vars)
            self._bind(*(ast.walk(item.optional_vars) if item.optional_vars is not None else ()))
        if may_end_early(node):
            partly = self._after_any_part(node.body)
            self._branches([lambda: self._block(node.body), lambda: self._go_on(partly)])
        else:
            self._block(node.body)

    def _try(self, node: ast.Try | ast.TryStar) -> None:
        before, thrown = self._env, self._after_any_part(node.body)
        partly = self._after_any_part([node])
        outer, self._jumps = self._jumps, defaultdict(list)

        def handle(handler: ast.ExceptHandler) -> None:
            self._env = thrown.copy()
            self._evaluate(handler.type)
            self._bind(handler)
            self._block(handler.body)

        handlers = [lambda handler=handler: handle(handler) for handler in node.handlers]
        self._branches([lambda: self._block([*node.body, *node.orelse]), *handlers], before)
        inner, self._jumps = self._jumps, outer
        end = self._here()
        # `finally` runs after an exception, after a jump, and after the end.
        self._finally(node, partly)
        for kind, envs in inner.items():
            for env in envs:
                self._finally(node, env)
                self._jumps[kind] += self._here()
        self._go_on(*end)
        self._block(node.finalbody)

    def _finally(self, node: ast.Try | ast.TryStar, env: Env) -> None:
        self._go_on(env)
        self._block(node.finalbody)

    def _match(self, node: ast.Match) -> None:
        self._evaluate(node.subject)
        # A pattern that does not match may have bound some of its names.
        before = self._after_any_part([case.pattern for case in node.cases])

        def take(case: ast.match_case) -> None:
            self._bind(*ast.walk(case.pattern))
            self._evaluate(case.pattern, case.guard)
            self._block(case.body)

        cases = [lambda case=case: take(case) for case in node.cases]
        self._branches([*cases, lambda: None], before)

    def _after_any_part(self, nodes: Sequence[ast.AST]) -> Env:
        """The bindings if any part of some statements has run."""
        env = self._env.copy()
        for inner in (one for node in nodes for one in ast.walk(node)):
            name = _bound_name(inner)
            if inner in self._names.get(name, ()):
                env.set(name, env.get(name) | {inner})
        return env


_STATEMENTS: dict[type[ast.AST], Callable[[Flow, Any], None]] = {
    **dict.fromkeys(DEFINITIONS, Flow._definition),
    **dict.fromkeys(LOOPS, Flow._loop),
    ast.Delete: Flow._delete,
    **dict.fromkeys((ast.Return, ast.Raise, ast.Break, ast.Continue), Flow._jump),
    ast.Expr: Flow._expression,
    ast.If: Flow._if,
    ast.With: Flow._with,
    ast.AsyncWith: Flow._with,
    ast.Try: Flow._try,
    ast.TryStar: Flow._try,
    ast.Match: Flow._match,
}


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


def _bound_name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Store) else ""
    if isinstance(node, ast.alias):
        return node.asname or node.name.partition(".")[0]
    names = (getattr(node, attribute, None) for attribute in ("name", "arg", "rest"))
    return next(filter(None, names), "")


def may_end_early(node: ast.With | ast.AsyncWith) -> bool:
    """Whether a `with` uses `suppress(…)`: its body may stop early while the program goes on."""
    calls = (item.context_expr for item in node.items)
    functions = (call.func for call in calls if isinstance(call, ast.Call))
    return any(last_name(function) == "suppress" for function in functions)
