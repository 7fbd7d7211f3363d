"""The index of a syntax tree: parents, scopes, and every node by its type.

The tree is walked once. Rules and the resolver look nodes up here, which keeps `check` below one
second per megabyte for files that mention pmap.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Any, TypeVar

Node = TypeVar("Node", bound=ast.AST)
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Import = ast.Import | ast.ImportFrom
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
_WITH_CALLS = (*DEFINITIONS, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
# The children of a node that opens a scope: those outside of it, the scope, and those inside.
_Parts = tuple[list[ast.AST], "Scope", list[ast.AST]]
# Operators, and what is text or a number.
_SKIPPED_FIELDS = {
    *("ctx", "op", "ops", "type_comment", "kind", "type_ignores", "conversion", "id", "attr"),
    *("arg", "asname", "module", "level", "is_async", "simple", "rest", "kwd_attrs"),
}
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

    @property
    def around_comprehension(self) -> Scope:
        """The scope itself, or the one around a comprehension."""
        if self.is_comprehension and self.parent is not None:
            return self.parent.around_comprehension
        return self

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
        self.quoted: set[ast.AST] = set()  # annotations in quotes, which nothing evaluates
        self._nodes: dict[type[ast.AST], list[ast.AST]] = defaultdict(list)
        # What is found about this tree and asked for again, whichever file has it.
        self.memo: dict[object, Any] = {}
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
        return grouped(self.nodes(ast.Name), lambda node: node.id)

    @cached_property
    def names_in(self) -> dict[tuple[Scope, str], list[ast.Name]]:
        """Every place of a name in a scope; in a comprehension, they are the outer scope's."""
        places: defaultdict[tuple[Scope, str], list[ast.Name]] = defaultdict(list)
        for node in self.nodes(ast.Name):
            scope = self.scope_of[node]
            if scope.is_comprehension:
                scope = scope.around_comprehension
            places[scope, node.id].append(node)
        return places

    @cached_property
    def attributes(self) -> dict[str, list[ast.Attribute]]:
        """Every attribute that is read, by its name."""
        read = (node for node in self.nodes(ast.Attribute) if isinstance(node.ctx, ast.Load))
        return grouped(read, lambda node: node.attr)

    @cached_property
    def calls_in(self) -> dict[ast.AST, list[ast.Call]]:
        """The calls inside each function and class, those in nested functions included."""
        by_function: defaultdict[ast.AST, list[ast.Call]] = defaultdict(list)
        for call in self.nodes(ast.Call):
            for node in self.ancestors(call):
                if isinstance(node, _WITH_CALLS):
                    by_function[node].append(call)
        return by_function

    @cached_property
    def only_imports(self) -> list[ast.alias]:
        """The imports of the module whose names nothing else in it binds."""
        bound = self.module.names.values()
        return [b[0] for b in bound if len(b) == 1 and isinstance(b[0], ast.alias)]

    @cached_property
    def imports(self) -> list[Import]:
        """Every import statement, in source order."""
        return sorted((*self.nodes(ast.Import), *self.nodes(ast.ImportFrom)), key=position)

    @cached_property
    def jumps(self) -> dict[ast.AST, list[ast.stmt]]:
        """The statements that jump, by the function, class or module around them."""
        kinds: tuple[type[ast.stmt], ...] = (ast.Return, ast.Raise, ast.Break, ast.Continue)
        nodes: list[ast.AST] = [node for kind in kinds for node in self.nodes(kind)]
        exits = self.attributes.get("exit", ())  # `sys.exit()` is an expression
        statements = filter(None, map(self.statement, (*nodes, *exits)))
        return grouped(statements, lambda s: next(n for n in self.ancestors(s) if n in self.opens))

    @cached_property
    def from_imports(self) -> dict[tuple[str, str, str], list[ast.ImportFrom]]:
        """The `from` imports of the top level, by module, name, and what the file calls it."""
        by_key: defaultdict[tuple[str, str, str], list[ast.ImportFrom]] = defaultdict(list)
        for statement in self.root.body:
            if isinstance(statement, ast.ImportFrom) and not statement.level:
                for alias in statement.names:
                    key = statement.module or "", alias.name, alias.asname or alias.name
                    by_key[key].append(statement)
        return by_key

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
        return next((n for n in (node, *self.ancestors(node)) if isinstance(n, ast.stmt)), None)

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
        scope = self.module
        stack: list[ast.AST | Scope] = [self.root]  # a scope is that of the nodes below it
        nodes, parents, scope_of = self._nodes, self.parents, self.scope_of
        while stack:
            node = stack.pop()
            if isinstance(node, Scope):
                scope = node
                continue
            kind = type(node)
            nodes[kind].append(node)
            if kind is ast.Constant:
                continue
            if isinstance(node, ast.Name):
                scope_of[node] = scope
                if not isinstance(node.ctx, ast.Load):
                    self._bind_name(node, scope)
                continue
            special = _SPECIAL.get(kind)
            parts = special(self, node, scope) if special is not None else None
            if parts is None:
                children = _children(node)
                children.reverse()
                stack += children
            else:
                outside, inner, inside = parts
                children = [*outside, *inside]
                stack += [scope, *inside[::-1], inner, *outside[::-1]]
            for child in children:
                parents[child] = node

    def _bind_name(self, node: ast.Name, scope: Scope) -> None:
        # `:=` in a comprehension binds a name of the function around it.
        is_walrus = isinstance(self.parents[node], ast.NamedExpr)
        (scope.around_comprehension if is_walrus else scope).bind(node.id, node)

    def _function(self, node: Function, scope: Scope) -> _Parts:
        inner = self.opens[node] = Scope(node, scope)
        self.scope_of[node] = scope
        self.parents[node.args] = node
        outside: list[ast.AST] = []
        if not isinstance(node, ast.Lambda):
            scope.bind(node.name, node)
            outside += node.decorator_list
            outside += self._annotation(node.returns)
        for argument in all_arguments(node.args):
            inner.bind(argument.arg, argument)
            self.parents[argument] = node.args
            outside += self._annotation(argument.annotation)
        defaults = (*node.args.defaults, *node.args.kw_defaults)
        outside += [default for default in defaults if default is not None]
        return outside, inner, [node.body] if isinstance(node, ast.Lambda) else [*node.body]

    def _class(self, node: ast.ClassDef, scope: Scope) -> _Parts:
        scope.bind(node.name, node)
        self.scope_of[node] = scope
        inner = self.opens[node] = Scope(node, scope)
        return [*node.decorator_list, *node.bases, *node.keywords], inner, [*node.body]

    def _annotated(self, node: ast.AnnAssign, scope: Scope) -> _Parts:
        return [*_children(node), *self._annotation(node.annotation)[1:]], scope, []

    def _annotation(self, node: ast.expr | None) -> list[ast.expr]:
        """An annotation, and what is between the quotes in it, at its place in the text."""
        strings = () if node is None else _strings(node)
        # In brackets, a word alone may be anything: `Float[Array, "batch"]`.
        types = (one for one in strings if one is node or "." in str(one.value))
        quoted = [*filter(None, map(_unquoted, types))]
        self.quoted.update(quoted)
        return quoted if node is None else [node, *quoted]

    def _comprehension(self, node: ast.AST, scope: Scope) -> _Parts:
        inner = self.opens[node] = Scope(node, scope)
        return [], inner, _children(node)

    def _declaration(self, node: ast.Global | ast.Nonlocal, scope: Scope) -> None:
        target = scope.parent if isinstance(node, ast.Nonlocal) else self.module
        if target is not None:
            scope.outer |= dict.fromkeys(node.names, target)

    def _bind_named(self, node: ast.AST, scope: Scope) -> None:
        if name := bound_name(node):
            scope.bind(name, node)


_SPECIAL: dict[type[ast.AST], Callable[[Index, Any, Scope], _Parts | None]] = {
    **dict.fromkeys(FUNCTIONS, Index._function),
    ast.ClassDef: Index._class,
    ast.AnnAssign: Index._annotated,
    **dict.fromkeys(COMPREHENSIONS, Index._comprehension),
    **dict.fromkeys((ast.Global, ast.Nonlocal), Index._declaration),
    **dict.fromkeys(
        (ast.alias, ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping),
        Index._bind_named,
    ),
}


def _strings(annotation: ast.AST) -> Iterator[ast.Constant]:
    """The strings of an annotation, but for those that are values: `Literal["pmap", "jit"]`."""
    if isinstance(annotation, ast.Constant):
        yield annotation
    of = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    if last_name(of) not in ("Literal", "Annotated"):
        for child in ast.iter_child_nodes(annotation):
            yield from _strings(child)


def _unquoted(string: ast.Constant) -> ast.expr | None:
    """What a string says in Python; None if it has escapes, a prefix or several lines."""
    text, width = string.value, (string.end_col_offset or 0) - string.col_offset
    if not isinstance(text, str) or width != len(text.encode()) + 2:
        return None
    try:
        quoted = ast.parse(f"({' ' * string.col_offset}{text})", mode="eval").body
    except SyntaxError:
        return None
    return ast.increment_lineno(quoted, string.lineno - 1)


def bound_name(node: ast.AST) -> str:
    """The name that an import, an `except` or a pattern binds: `import a.b` binds `a`."""
    if isinstance(node, ast.alias):
        return node.asname or node.name.partition(".")[0]
    return getattr(node, "name", None) or getattr(node, "rest", None) or ""


def _children(node: ast.AST) -> list[ast.AST]:
    """The nodes directly inside a node, without operators and the like."""
    kind = type(node)
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(f for f in kind._fields if f not in _SKIPPED_FIELDS)
    children: list[ast.AST] = []
    for field in _FIELDS[kind]:
        value = getattr(node, field, None)
        if isinstance(value, ast.AST):
            children.append(value)
        elif isinstance(value, list):
            children += [item for item in value if isinstance(item, ast.AST)]
    return children


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """The items by their key, in their order."""
    groups: defaultdict[Key, list[Item]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups


@lru_cache(maxsize=2)  # each text is asked about by several steps
def index_of(text: str) -> Index:
    """The index of a text, which must not be changed; raises as `ast.parse` does."""
    return Index(ast.parse(text))


def all_arguments(arguments: ast.arguments) -> list[ast.arg]:
    """Every parameter of a signature, in order."""
    first, last = [*arguments.posonlyargs, *arguments.args], arguments.kwonlyargs
    listed = [*first, arguments.vararg, *last, arguments.kwarg]
    return [argument for argument in listed if argument is not None]


def positional(function: Function) -> list[str]:
    """The names of the parameters that can be passed by position."""
    return [argument.arg for argument in (*function.args.posonlyargs, *function.args.args)]


def position(node: ast.AST) -> tuple[int, int]:
    """Line and column where a node starts; (0, 0) for a node without a position."""
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def end(node: ast.AST) -> tuple[int, int]:
    """Line and column where a node ends."""
    return getattr(node, "end_lineno", None) or 0, getattr(node, "end_col_offset", None) or 0


def first_line(statement: ast.stmt) -> int:
    """The line that a statement begins on, its decorators included."""
    return min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])


def has_star(nodes: Iterable[ast.AST]) -> bool:
    """Whether one of some arguments or elements is unpacked: `*x`."""
    return any(isinstance(node, ast.Starred) for node in nodes)


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
