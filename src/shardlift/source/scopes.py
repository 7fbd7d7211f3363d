"""The index of a syntax tree: parents, scopes, and every node by its type.

The tree is walked once. Rules and the resolver look nodes up here, which keeps `check` below one
second per megabyte for files that mention pmap.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property, lru_cache
from typing import Any, TypeVar

Node = TypeVar("Node", bound=ast.AST)
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Import = ast.Import | ast.ImportFrom
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SKIPPED_FIELDS = {"ctx", "op", "ops", "type_comment", "kind", "type_ignores", "conversion"}
_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {}


class Scope:
    """The names that one module, class, function or comprehension binds, in order."""

    __slots__ = ("is_comprehension", "names", "node", "outer", "parent")

    def __init__(self, node: ast.AST, parent: Scope | None) -> None:
        """Create the empty scope that `node` opens inside `parent`."""
        self.node = node
        self.parent = parent
        self.names: dict[str, list[ast.AST]] = {}
        self.outer: dict[str, Scope] = {}  # the scopes of names declared global or nonlocal
        self.is_comprehension = isinstance(node, COMPREHENSIONS)  # it runs where it is written

    def bind(self, name: str, node: ast.AST) -> None:
        """Record that `node` binds `name`, here or in the scope that `global` refers to."""
        scope = self.outer.get(name, self)
        scope.names.setdefault(name, []).append(node)


class Index:
    """Parents, scopes and nodes of one module."""

    def __init__(self, root: ast.Module) -> None:
        """Walk the tree."""
        self.root = root
        self.parents: dict[ast.AST, ast.AST] = {}
        self.scope_of: dict[ast.AST, Scope] = {}  # the scope around a name, function or class
        self.opens: dict[ast.AST, Scope] = {}  # the scope that a function or class opens
        self._nodes: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        # Results of `reaching` and of `returns`, which are asked for often.
        self.flows: dict[object, Any] = {}
        self._returns: dict[ast.AST, list[ast.expr]] = {}
        self.module = Scope(root, None)
        self.opens[root] = self.module
        self._walk()

    def nodes(self, kind: type[Node]) -> list[Node]:
        """Every node of exactly this type, in source order."""
        return self._nodes[kind]  # type: ignore[return-value]

    @cached_property
    def names(self) -> dict[str, list[ast.Name]]:
        """Every use and binding of a name by `ast.Name`, in source order."""
        uses: dict[str, list[ast.Name]] = {}
        for node in self.nodes(ast.Name):
            uses.setdefault(node.id, []).append(node)
        return uses

    @cached_property
    def names_in(self) -> dict[tuple[Scope, str], list[ast.Name]]:
        """Every place of a name in a scope; in a comprehension, they are the outer scope's."""
        by_scope: defaultdict[tuple[Scope, str], list[ast.Name]] = defaultdict(list)
        for node in self.nodes(ast.Name):
            scope = self.scope_of[node]
            while scope.is_comprehension and scope.parent is not None:
                scope = scope.parent
            by_scope[scope, node.id].append(node)
        return by_scope

    @cached_property
    def jumps(self) -> dict[ast.AST, list[ast.stmt]]:
        """The statements that jump, by the function, class or module around them."""
        kinds: tuple[type[ast.stmt], ...] = (ast.Return, ast.Raise, ast.Break, ast.Continue)
        nodes: list[ast.AST] = [node for kind in kinds for node in self.nodes(kind)]
        by_scope: defaultdict[ast.AST, list[ast.stmt]] = defaultdict(list)
        for node in (*nodes, *self.attributes.get("exit", ())):
            statement = self.statement(node)
            if statement is not None:
                around = next(n for n in self.ancestors(statement) if n in self.opens)
                by_scope[around].append(statement)
        return by_scope

    @cached_property
    def attributes(self) -> dict[str, list[ast.Attribute]]:
        """Every attribute that is read, by its name."""
        by_name: defaultdict[str, list[ast.Attribute]] = defaultdict(list)
        for node in self.nodes(ast.Attribute):
            if isinstance(node.ctx, ast.Load):
                by_name[node.attr].append(node)
        return by_name

    @cached_property
    def calls_in(self) -> dict[ast.AST, list[ast.Call]]:
        """The calls inside each function and class, those in nested functions included."""
        by_function: defaultdict[ast.AST, list[ast.Call]] = defaultdict(list)
        for call in self.nodes(ast.Call):
            for node in self.ancestors(call):
                if isinstance(node, (*DEFINITIONS, ast.Lambda)):
                    by_function[node].append(call)
        return by_function

    @cached_property
    def only_imports(self) -> list[ast.alias]:
        """The imports of the module whose names nothing else in it binds."""
        bound = self.module.names.values()
        return [b[0] for b in bound if len(b) == 1 and isinstance(b[0], ast.alias)]

    @cached_property
    def from_imports(self) -> dict[tuple[str, str, str], list[ast.ImportFrom]]:
        """The `from` imports of the top level, by module, name, and what the file calls it."""
        by_key: dict[tuple[str, str, str], list[ast.ImportFrom]] = {}
        for statement in self.root.body:
            if isinstance(statement, ast.ImportFrom) and not statement.level:
                for alias in statement.names:
                    key = statement.module or "", alias.name, alias.asname or alias.name
                    by_key.setdefault(key, []).append(statement)
        return by_key

    @cached_property
    def imports(self) -> list[Import]:
        """Every import statement, in source order."""
        return sorted((*self.nodes(ast.Import), *self.nodes(ast.ImportFrom)), key=position)

    def functions(self) -> Iterator[Function]:
        """Every def and lambda."""
        yield from self.nodes(ast.FunctionDef)
        yield from self.nodes(ast.AsyncFunctionDef)
        yield from self.nodes(ast.Lambda)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around a node, innermost first."""
        while (parent := self.parents.get(node)) is not None:
            yield parent
            node = parent

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """The statement a node is part of."""
        while not isinstance(node, ast.stmt):
            parent = self.parents.get(node)
            if parent is None:
                return None
            node = parent
        return node

    @cached_property
    def generators(self) -> set[ast.AST | None]:
        """The functions that yield: calling one gives an iterator, whatever it returns."""
        yields = (*self.nodes(ast.Yield), *self.nodes(ast.YieldFrom))
        return {self.function_around(node) for node in yields}

    def function_around(self, node: ast.AST) -> ast.AST | None:
        """The innermost function around a node."""
        return next((n for n in self.ancestors(node) if isinstance(n, FUNCTIONS)), None)

    def binding_scope(self, name: ast.Name) -> tuple[Scope | None, bool]:
        """The scope that binds a name, and whether it is outside the function of the name."""
        scope: Scope | None = self.scope_of[name]
        is_outer = False
        while scope is not None:
            if name.id in scope.outer:
                scope, is_outer = scope.outer[name.id], True
            # Functions do not see the names of the class around them.
            if name.id in scope.names and not (is_outer and isinstance(scope.node, ast.ClassDef)):
                break
            is_outer = is_outer or not scope.is_comprehension
            scope = scope.parent
        return scope, is_outer

    def returns(self, function: ast.AST) -> list[ast.expr]:
        """The expressions that a function returns; none for a class or a coroutine."""
        if function not in self._returns:
            body = function.body if isinstance(function, ast.FunctionDef) else []
            returned = [function.body] if isinstance(function, ast.Lambda) else _return_values(body)
            self._returns[function] = list(returned)
        return self._returns[function]

    def within(self, node: ast.AST, kind: type[Node]) -> Iterator[Node]:
        """Every node of a type inside `node`, including those in nested functions."""
        for other in ast.walk(node):
            if isinstance(other, kind) and other is not node:
                yield other

    def _walk(self) -> None:
        stack: list[tuple[ast.AST, Scope]] = [(self.root, self.module)]
        nodes, parents, scope_of = self._nodes, self.parents, self.scope_of
        while stack:
            node, scope = stack.pop()
            kind = type(node)
            nodes[kind].append(node)
            if kind is ast.Name:
                scope_of[node] = scope
                self._bind_name(node, scope)  # type: ignore[arg-type]
                continue
            if kind is ast.Constant:
                continue
            special = _SPECIAL.get(kind)
            if special is not None:
                inner = special(self, node, scope)
                if inner is not None:
                    stack.extend(reversed(inner))
                    for child, _ in inner:
                        parents[child] = node
                    continue
            children: list[tuple[ast.AST, Scope]] = []
            fields = _FIELDS.get(kind)
            if fields is None:
                fields = tuple(f for f in kind._fields if f not in _SKIPPED_FIELDS)
                _FIELDS[kind] = fields
            for field in fields:
                value = getattr(node, field, None)
                if isinstance(value, ast.AST):
                    parents[value] = node
                    children.append((value, scope))
                elif isinstance(value, list):
                    for item in value:
                        if isinstance(item, ast.AST):
                            parents[item] = node
                            children.append((item, scope))
            children.reverse()
            stack.extend(children)

    def _bind_name(self, node: ast.Name, scope: Scope) -> None:
        if isinstance(node.ctx, ast.Load):
            return
        if isinstance(self.parents[node], ast.NamedExpr):
            # `:=` in a comprehension binds a name of the function around it.
            while scope.is_comprehension and scope.parent is not None:
                scope = scope.parent
        scope.bind(node.id, node)

    def _function(self, node: ast.AST, scope: Scope) -> list[tuple[ast.AST, Scope]]:
        assert isinstance(node, FUNCTIONS)
        inner = Scope(node, scope)
        self.opens[node] = inner
        self.scope_of[node] = scope
        outside: list[ast.AST] = []
        if not isinstance(node, ast.Lambda):
            scope.bind(node.name, node)
            outside += node.decorator_list
            outside += [node.returns] if node.returns else []
        arguments = node.args
        for argument in all_arguments(arguments):
            inner.bind(argument.arg, argument)
            self.parents[argument] = arguments
            outside += [argument.annotation] if argument.annotation else []
        self.parents[arguments] = node
        outside += arguments.defaults
        outside += [default for default in arguments.kw_defaults if default is not None]
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        return [(child, scope) for child in outside] + [(child, inner) for child in body]

    def _class(self, node: ast.AST, scope: Scope) -> list[tuple[ast.AST, Scope]]:
        assert isinstance(node, ast.ClassDef)
        scope.bind(node.name, node)
        self.scope_of[node] = scope
        inner = Scope(node, scope)
        self.opens[node] = inner
        outside: list[ast.AST] = [*node.decorator_list, *node.bases, *node.keywords]
        return [(child, scope) for child in outside] + [(child, inner) for child in node.body]

    def _comprehension(self, node: ast.AST, scope: Scope) -> list[tuple[ast.AST, Scope]]:
        inner = Scope(node, scope)
        self.opens[node] = inner
        # The generators come first because they bind the names in the element.
        children = list(ast.iter_child_nodes(node))
        children.sort(key=lambda child: not isinstance(child, ast.comprehension))
        return [(child, inner) for child in children]

    def _declaration(self, node: ast.AST, scope: Scope) -> None:
        assert isinstance(node, (ast.Global, ast.Nonlocal))
        target: Scope | None = self.module
        if isinstance(node, ast.Nonlocal):
            target = scope.parent
        for name in node.names:
            if target is not None:
                scope.outer[name] = target

    def _alias(self, node: ast.AST, scope: Scope) -> None:
        assert isinstance(node, ast.alias)
        scope.bind(node.asname or node.name.partition(".")[0], node)

    def _bind_named(self, node: ast.AST, scope: Scope) -> None:
        # `except E as name`, `case name`, `case [*name]`, `case {**rest}`
        name = getattr(node, "name", None) or getattr(node, "rest", None)
        if name:
            scope.bind(name, node)


_SPECIAL = {
    ast.FunctionDef: Index._function,
    ast.AsyncFunctionDef: Index._function,
    ast.Lambda: Index._function,
    ast.ClassDef: Index._class,
    **dict.fromkeys(COMPREHENSIONS, Index._comprehension),
    ast.Global: Index._declaration,
    ast.Nonlocal: Index._declaration,
    ast.alias: Index._alias,
    ast.ExceptHandler: Index._bind_named,
    ast.MatchAs: Index._bind_named,
    ast.MatchStar: Index._bind_named,
    ast.MatchMapping: Index._bind_named,
}


@lru_cache(maxsize=2)  # each text is asked about by several steps
def index_of(text: str) -> Index:
    """The index of a text, which must not be changed; raises as `ast.parse` does."""
    return Index(ast.parse(text))


def all_arguments(arguments: ast.arguments) -> list[ast.arg]:
    """Every parameter of a signature, in order."""
    listed = [*arguments.posonlyargs, *arguments.args]
    if arguments.vararg:
        listed.append(arguments.vararg)
    listed += arguments.kwonlyargs
    if arguments.kwarg:
        listed.append(arguments.kwarg)
    return listed


def positional(function: Function) -> list[str]:
    """The names of the parameters that can be passed by position."""
    return [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]


def position(node: ast.AST) -> tuple[int, int]:
    """Line and column where a node starts; (0, 0) for a node without a position."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def end(node: ast.AST) -> tuple[int, int]:
    """Line and column where a node ends."""
    return getattr(node, "end_lineno", None) or 0, getattr(node, "end_col_offset", None) or 0


def keyword_value(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument."""
    return next((k.value for k in call.keywords if k.arg == name), None)


def argument_at(call: ast.Call, place: int, name: str) -> ast.expr | None:
    """The value of an argument that may be passed by position or by keyword."""
    return keyword_value(call, name) or (call.args[place] if len(call.args) > place else None)


def last_name(node: ast.AST) -> str:
    """The last part of a name: `pmap` for `jax.pmap`; empty for other expressions."""
    return getattr(node, "attr", None) or getattr(node, "id", None) or ""


def is_static(function: ast.AST) -> bool:
    """Whether a method is a static method."""
    decorators = getattr(function, "decorator_list", [])
    return any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in decorators)


def _return_values(body: list[ast.stmt]) -> Iterator[ast.expr]:
    for statement in body:
        if isinstance(statement, ast.Return) and statement.value is not None:
            yield statement.value
        elif not isinstance(statement, DEFINITIONS):
            for field in ("body", "orelse", "finalbody"):
                yield from _return_values(getattr(statement, field, []))
            for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
                yield from _return_values(part.body)
