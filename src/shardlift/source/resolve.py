"""Resolution: the values that an expression may have, across the files of a project.

Everything is looked up on demand and cached. A value that is not understood is `UNKNOWN`, never a
guess. Where the program has a choice (`jax.pmap if n > 1 else jax.jit`), all values are listed.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from shardlift.source.import_graph import imported_module
from shardlift.source.libraries import LIBRARIES, PARTIALS
from shardlift.source.reaching import at_end, reaching_bindings
from shardlift.source.scopes import FUNCTIONS, has_star, is_static
from shardlift.source.values import (
    UNKNOWN,
    Argument,
    Constant,
    Element,
    External,
    Instance,
    Known,
    Mapped,
    Output,
    Partial,
    Result,
    Value,
)
from shardlift.source.wrappers import add_keywords, apply_transform, argument_for, as_transform

if TYPE_CHECKING:
    from shardlift.source.file import File

_MOST_ALTERNATIVES = 6
_DEEPEST = 60
_BUILTINS = frozenset(dir(builtins))
# Functions that return the function that they are called with.
_IDENTITIES = frozenset({"builtins.staticmethod", "builtins.classmethod"})
_UNKNOWN = (UNKNOWN,)
_SCALARS = (str, int, float, bool, type(None))


class Resolver:
    """Resolves the expressions of one file."""

    def __init__(self, file: File) -> None:
        """Create the caches, empty."""
        self.file = file
        self._known: dict[ast.AST, tuple[Value, ...]] = {}
        self._paths: dict[str, tuple[Value, ...]] = {}
        # What every look at the same tree finds.
        self._shared: dict[ast.AST, tuple[Value, ...]] = file.index.memo.setdefault(Resolver, {})
        self._bound: dict[ast.AST, tuple[Value, ...]] = {}
        self._busy: set[ast.AST] = set()

    def values(self, node: ast.AST) -> tuple[Value, ...]:
        """All values that a node may have; never empty."""
        values = self._known.get(node) or self._shared.get(node)
        if values is not None:
            return values
        if node in self._busy or len(self._busy) > _DEEPEST:
            return _UNKNOWN
        self._busy.add(node)
        try:
            values = self._all(node)
        finally:
            self._busy.discard(node)
        known = self._shared if _is_same_everywhere(values) else self._known
        known[node] = values
        return values

    def exported(self, name: str) -> tuple[Value, ...]:
        """The values of a module-level name after the module has run; empty if there is none."""
        index = self.file.index
        if name not in index.module.names:
            return ()
        last = at_end(index, index.module, name)
        return _unique(value for node in last for value in self._binding(node))

    def bound(self, node: ast.AST) -> tuple[Value, ...]:
        """The values that a binding, such as the alias of an import, gives to its name."""
        return _unique(self._binding(node))

    def _all(self, node: ast.AST) -> tuple[Value, ...]:
        """The values, found without a detour for most: `jnp.sum`, and names that are bound once."""
        if isinstance(node, ast.Attribute):
            bases = self.values(node.value)
            if len(bases) == 1 and isinstance(bases[0], External):
                return self.path(f"{bases[0].path}.{node.attr}")
        elif isinstance(node, ast.Name):
            bound = reaching_bindings(self.file.index, node)
            if len(bound) == 1 and isinstance(bound[0], (ast.alias, ast.arg)):
                if bound[0] not in self._bound:
                    self._bound[bound[0]] = self.bound(bound[0])
                return self._bound[bound[0]]
            return _unique(self._name(node, bound))
        return _unique(self._values(node))

    def _values(self, node: ast.AST) -> Iterator[Value]:
        if isinstance(node, ast.Attribute):
            for base in self.values(node.value):
                yield from self.attribute(base, node.attr)
        elif isinstance(node, ast.Call):
            yield from self._call(node)
        elif isinstance(node, ast.Constant):
            yield Constant(node.value) if isinstance(node.value, _SCALARS) else UNKNOWN
        elif isinstance(node, (ast.IfExp, ast.BoolOp)):
            for choice in node.values if isinstance(node, ast.BoolOp) else (node.body, node.orelse):
                yield from self.values(choice)
        elif isinstance(node, ast.NamedExpr):
            yield from self.values(node.value)
        elif isinstance(node, ast.Subscript):
            # An integer selects an element of a tuple or a device: `outputs` decides which.
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            for base in self.values(node.value):
                if isinstance(base, Output) and isinstance(key, str):
                    yield Output(base.mapped, base.call, (*base.path, key))
                else:
                    yield UNKNOWN
        elif isinstance(node, ast.Lambda):
            yield Known(node, self.file)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from self._decoration(node)
        else:
            yield UNKNOWN

    def _name(self, node: ast.Name, bound: list[ast.AST]) -> Iterator[Value]:
        for binding in bound:
            yield from self._binding(binding)
        if not bound:
            yield from self.starred(node.id, (self.file.path,))
            if node.id in _BUILTINS:
                yield External(f"builtins.{node.id}")

    def _binding(self, node: ast.AST) -> Iterator[Value]:
        if isinstance(node, ast.alias):
            yield from self._import(node, node.name)
        elif isinstance(node, ast.ClassDef):
            yield Known(node, self.file)
        elif isinstance(node, ast.arg):
            yield self._argument(node)
        elif isinstance(node, (ast.Name, ast.Attribute)):
            yield from self._assignment(node)
        else:
            yield from self.values(node)

    def _import(self, alias: ast.alias, name: str) -> Iterator[Value]:
        statement = self.file.index.parents[alias]
        if isinstance(statement, ast.ImportFrom):
            base = self.imported_module(statement)
            yield from self.path(f"{base}.{name}" if base else name)
        elif alias.asname:
            yield from self.path(name)
        elif name != "*":
            yield External(name.partition(".")[0])

    def starred(self, name: str, seen: tuple[str, ...]) -> Iterator[Value]:
        """The values of a name by `import *`: of the last modules that have it, or may have it."""
        for star in reversed(self.file.index.module.names.get("*", ())):
            statement = self.file.index.parents[star]
            assert isinstance(statement, ast.ImportFrom)
            base = self.imported_module(statement)
            module = self.file.project.module(tuple(base.split(".")), self.file.path)
            if module is None:
                yield from self.path(f"{base}.{name}" if base else name)
            elif values := module.exported(name):
                yield from values
                return
            elif module.path not in seen:
                yield from module.resolver.starred(name, (*seen, module.path))

    def imported_module(self, statement: ast.ImportFrom) -> str:
        """The absolute name of the module that a `from` import names."""
        return imported_module(self.file.path, statement.level, statement.module or "")

    def path(self, dotted: str) -> tuple[Value, ...]:
        """The values of a dotted name, which belongs to the project or to a library."""
        values = self._paths.get(dotted)
        if values is None:
            self._paths[dotted] = (External(dotted),)  # ends an import cycle
            values = self._paths[dotted] = _unique(self._path(dotted))
        return values

    def _path(self, dotted: str) -> Iterator[Value]:
        parts = tuple(dotted.split("."))
        project, near = self.file.project, self.file.path
        if parts[0] in LIBRARIES or project.has_module(parts, near):
            yield External(dotted)
            return
        values = project.exported(parts[:-1], parts[-1], near)
        if not values and len(parts) > 2:
            owners = project.exported(parts[:-2], parts[-2], near)
            values = tuple(v for owner in owners for v in self.attribute(owner, parts[-1]))
        yield from values or (External(dotted),)

    def _argument(self, node: ast.arg) -> Value:
        function = self.file.index.parents[self.file.index.parents[node]]
        assert isinstance(function, FUNCTIONS)
        owner = self.file.index.parents.get(function)
        first = [*function.args.posonlyargs, *function.args.args][:1]
        if isinstance(owner, ast.ClassDef) and first == [node] and not is_static(function):
            return Instance(owner, self.file)
        return Argument(node, function)

    def _assignment(self, target: ast.expr) -> Iterator[Value]:
        """The values that an assignment or a loop gives to a name."""
        path: list[int] = []
        node: ast.AST = target
        parents = self.file.index.parents
        while isinstance(parent := parents[node], (ast.Tuple, ast.List)):
            place = parent.elts.index(node)  # type: ignore[arg-type]
            if has_star(parent.elts[:place]):  # it counts from the end
                yield UNKNOWN
                return
            path.insert(0, place)
            node = parent
        if isinstance(parent, ast.AnnAssign | ast.NamedExpr | ast.Assign) and parent.value:
            yield from self._unpack(parent.value, path)
        elif isinstance(parent, (ast.For, ast.AsyncFor, ast.comprehension)):
            for value in self.values(parent.iter):
                yield Element(value)
        else:
            yield UNKNOWN

    def _unpack(self, value: ast.expr, path: list[int]) -> Iterator[Value]:
        while path and isinstance(value, (ast.Tuple, ast.List)) and path[0] < len(value.elts):
            if has_star(value.elts[: path[0] + 1]):
                yield UNKNOWN
                return
            value, path = value.elts[path[0]], path[1:]
        if not path:
            yield from self.values(value)
            return
        called = self.values(value.func) if isinstance(value, ast.Call) else ()
        known = (f for f in called if isinstance(f, Known) and isinstance(f.node, FUNCTIONS))
        functions = [f for f in known if f.node not in f.file.index.generators]
        if called and len(functions) == len(called):
            if value in self._busy:  # a function that returns what it is called for
                return
            self._busy.add(value)
            try:
                returns = [(f.file.resolver, node) for f in functions for node in f.returns()]
                found = [one for resolver, node in returns for one in resolver._unpack(node, path)]
            finally:
                self._busy.discard(value)
            yield from found
            return
        for whole in self.values(value):
            if isinstance(whole, Output):
                yield Output(whole.mapped, whole.call, (*whole.path, *path))
            else:
                yield Element(whole)

    def attribute(self, base: Value, name: str) -> Iterator[Value]:
        """The values of an attribute."""
        if isinstance(base, External):
            yield from self.path(f"{base.path}.{name}")
        elif isinstance(base, Output):
            yield Output(base.mapped, base.call, (*base.path, name))
        elif isinstance(base, (Instance, Known)) and isinstance(base.node, ast.ClassDef):
            yield from base.file.resolver.member(base.node, name)
        else:
            yield UNKNOWN

    def member(self, owner: ast.ClassDef, name: str, depth: int = 0) -> Iterator[Value]:
        """The values of a class attribute or method, and those assigned to `self.name`."""
        in_body = self.file.index.opens[owner].names.get(name, [])
        bound = in_body + self._attributes.get((owner, name), [])
        for node in bound:
            yield from self._binding(node)
        if bound or depth > 3:
            return
        for base in owner.bases:
            for value in self.values(base):
                if isinstance(value, Known) and isinstance(value.node, ast.ClassDef):
                    yield from value.file.resolver.member(value.node, name, depth + 1)

    @cached_property
    def _attributes(self) -> dict[tuple[ast.ClassDef, str], list[ast.AST]]:
        """The places that assign `self.name`, by class and name."""
        attributes: dict[tuple[ast.ClassDef, str], list[ast.AST]] = {}
        for node in self.file.index.nodes(ast.Attribute):
            if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
                for value in self.values(node.value):
                    if isinstance(value, Instance) and value.file is self.file:
                        attributes.setdefault((value.node, node.attr), []).append(node)
        return attributes

    def _call(self, node: ast.Call) -> Iterator[Value]:
        for function in self.values(node.func):
            transform = as_transform(function)
            mapped = function.function if isinstance(function, Partial) else function
            if transform is not None:
                yield apply_transform(transform, node, self.file)
            elif isinstance(function, External):
                yield from self._library_call(function.path, node)
            elif isinstance(mapped, Mapped):
                yield Output(mapped, node)
            elif isinstance(function, Known) and isinstance(function.node, ast.ClassDef):
                yield Instance(function.node, function.file)
            elif isinstance(function, Known):
                yield from self._inline(function, node)
            elif isinstance(function, Result) and function.path == "functools.wraps" and node.args:
                yield from self.values(node.args[0])
            else:
                yield UNKNOWN

    def _library_call(self, path: str, node: ast.Call) -> Iterator[Value]:
        if path in PARTIALS and node.args:
            for target in self.values(node.args[0]):
                transform = as_transform(target)
                if transform is None:
                    yield Partial(target, node, self.file)
                elif len(node.args) == 1:
                    yield add_keywords(transform, node, self.file)
                else:
                    yield apply_transform(transform, node, self.file, skip=1)
        elif path in _IDENTITIES and len(node.args) == 1:
            yield from self.values(node.args[0])
        else:
            yield Result(path, node, self.file)

    def _inline(self, function: Known, call: ast.Call) -> Iterator[Value]:
        """The values that a function of the project returns for the arguments of a call."""
        is_generator = function.node in function.file.index.generators
        for returned in () if is_generator else function.returns():
            for value in function.file.values(returned):
                if isinstance(value, Argument) and value.function is function.node:
                    argument = argument_for(function, value.node.arg, call)
                    yield from self.values(argument) if argument is not None else (UNKNOWN,)
                else:
                    yield value

    def _decoration(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Value]:
        current: Value = Known(node, self.file)
        for decorator in reversed(node.decorator_list):
            for transform in filter(None, map(as_transform, self.values(decorator))):
                operand = current if isinstance(current, Known) else None
                current = Mapped(transform, operand, decorator, self.file, transform.keywords)
        yield current


def _is_same_everywhere(values: tuple[Value, ...]) -> bool:
    """Whether it is a parameter or a library's name, without anything of this look at a file."""
    value = values[0]
    if type(value) is External:
        return len(values) == 1 and value.path.partition(".")[0] in LIBRARIES
    return type(value) is Argument and len(values) == 1


def _unique(values: Iterator[Value]) -> tuple[Value, ...]:
    unique: list[Value] = []
    for value in values:
        if value not in unique:
            unique.append(value)
        if len(unique) == _MOST_ALTERNATIVES:
            break
    return tuple(unique) or (UNKNOWN,)
