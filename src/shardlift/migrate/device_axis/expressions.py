"""Expressions as a flow of values: the cell of each, and what it does to the cells inside it."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from shardlift.migrate.device_axis.cells import (
    EACH,
    Cell,
    Escape,
    Made,
    Place,
    Use,
    add_made,
    add_use,
    collapse,
    each,
    escape,
    find,
    iterate,
    part,
    tree,
    unify,
)
from shardlift.migrate.device_axis.idioms import idiom
from shardlift.migrate.device_axis.program import Indexed, PendingCall, Program, shared_names
from shardlift.source.file import File
from shardlift.source.libraries import TREE_MAPS
from shardlift.source.scopes import FUNCTIONS, Scope, positional
from shardlift.source.values import Instance, Known, Value

# Functions that give back what they are given, or its elements, laid out as it was.
_SAME = frozenset(
    {
        "jax.block_until_ready", "jax.device_get", "numpy.asarray", "jax.numpy.asarray",
        "builtins.iter", "builtins.next", "builtins.list", "builtins.tuple", "builtins.dict",
        "itertools.islice", "itertools.cycle", "tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm",
    }
)  # fmt: skip
_ITERATES = _SAME - {
    "jax.block_until_ready", "jax.device_get", "numpy.asarray", "jax.numpy.asarray",
    "builtins.dict",
}  # fmt: skip
_PREFETCH = frozenset({"flax.jax_utils.prefetch_to_device"})
_METRICS = frozenset({"flax.training.common_utils.get_metrics"})
# Attributes and methods of arrays that show their shape or rows.
_OF_ARRAYS = frozenset(
    {
        "shape", "ndim", "size", "T", "at", "sharding", "devices", "addressable_shards", "nbytes",
        "addressable_data", "real", "imag", "mT", "flat", "itemsize", "global_shards",
    }
)  # fmt: skip


class Expressions:
    """Evaluates the expressions of one scope of a file."""

    def __init__(self, program: Program, file: File, scope: Scope) -> None:
        """`scope` is what the names that are bound here belong to."""
        self.program = program
        self.file = file
        self.scope = scope
        self.shared = shared_names(file, scope)
        self.env: dict[str, frozenset[ast.AST]] = {}

    # ---- small words

    def at(self, node: ast.AST) -> Place:
        """A node of this file."""
        return Place(self.file, node)

    def plain(self, node: ast.AST) -> Cell:
        """A value that is not followed back."""
        return add_made(Cell(), Made("elsewhere", self.at(node)))

    def lose(self, node: ast.AST, why: str) -> None:
        """Evaluate an expression for a use that is not followed."""
        if isinstance(node, ast.expr):
            escape(self.value(node), Escape(self.at(node), why))

    # ---- expressions

    def value(self, node: ast.expr) -> Cell:
        """The cell of an expression."""
        if isinstance(node, ast.Name):
            return self.name(node)
        if isinstance(node, ast.Constant):
            return Cell()
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is not None:
            found: Cell = method(node)
            return found
        self._children(node)
        return self.plain(node)

    def _children(self, node: ast.AST) -> None:
        """Whatever an expression is made of goes into something that is not followed."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.lose(child, f"is used in `{self.file.brief(node)}`")
            elif not isinstance(child, (ast.expr_context, ast.operator, ast.cmpop)):
                self._children(child)

    def name(self, node: ast.Name) -> Cell:
        """What a name stands for where it is read."""
        for value in self.file.values(node):
            self._handed_on(value, node)
        return self.lookup(node)

    def _handed_on(self, value: Value, node: ast.AST) -> None:
        if isinstance(value, Instance):
            self.program.leak(value.node, value.file, self.at(node))
        elif isinstance(value, Known) and isinstance(value.node, FUNCTIONS):
            self.program.hand_on(value, self.at(node))

    def lookup(self, node: ast.Name) -> Cell:
        """The cell of a name, as far as the statements before have told."""
        scope = self._owner(node.id)
        if scope is None:
            return Cell()
        if scope is self.scope and node.id not in self.shared and self.env.get(node.id):
            if scope.node is self.file.index.root:
                self.program.read.add((self.file, node.id))
            cell = Cell()
            for one in self.env[node.id]:
                cell = unify(cell, self.program.bound(self.file, one))
            return cell
        return self.program.every_binding(self.file, scope, node.id)

    def _owner(self, name: str) -> Scope | None:
        scope: Scope | None = self.scope
        if name in self.scope.outer:
            scope = self.scope.outer[name]
        crossed = False
        while scope is not None:
            if name in scope.names and not (crossed and isinstance(scope.node, ast.ClassDef)):
                return scope
            crossed, scope = True, scope.parent
        return None

    def _namedexpr(self, node: ast.NamedExpr) -> Cell:
        cell = self.value(node.value)
        unify(self.program.binding(node.target), cell)
        self.env[node.target.id] = frozenset({node.target})
        return cell

    def _ifexp(self, node: ast.IfExp) -> Cell:
        self.test(node.test)
        return unify(self.value(node.body), self.value(node.orelse))

    def test(self, node: ast.expr) -> None:
        """An expression that is only asked whether it is true, or None."""
        if isinstance(node, (ast.Name, ast.Attribute)):
            self.value(node)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.test(node.operand)
        elif isinstance(node, ast.BoolOp):
            for one in node.values:
                self.test(one)
        elif isinstance(node, ast.Compare) and all(
            isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops
        ):
            for one in (node.left, *node.comparators):
                self.value(one)
        else:
            self.value(node)

    def _compare(self, node: ast.Compare) -> Cell:
        if all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
            self.test(node)
        else:
            self._children(node)
        return Cell()

    def _boolop(self, node: ast.BoolOp) -> Cell:
        cell = Cell()
        for one in node.values:
            cell = unify(cell, self.value(one))
        return cell

    def _tuple(self, node: ast.Tuple) -> Cell:
        return self._elements(node.elts, node)

    def _list(self, node: ast.List) -> Cell:
        cell = Cell()
        part(cell, EACH)
        for element in node.elts:
            inner = element.value if isinstance(element, ast.Starred) else element
            given = self.value(inner)
            unify(part(cell, EACH), each(given) if inner is not element else given)
        return cell

    def _elements(self, elements: list[ast.expr], node: ast.expr) -> Cell:
        if any(isinstance(element, ast.Starred) for element in elements):
            self._children(node)
            return self.plain(node)
        cell = Cell()
        for number, element in enumerate(elements):
            unify(part(cell, number), self.value(element))
        return cell

    def _dict(self, node: ast.Dict) -> Cell:
        cell = Cell()
        if not all(isinstance(k, ast.Constant) and isinstance(k.value, str) for k in node.keys):
            collapse(cell)
        for key, value in zip(node.keys, node.values, strict=True):
            inner = self.value(value)
            if key is None:
                cell = unify(collapse(cell), collapse(inner))
            elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                unify(part(cell, key.value), inner)
            else:
                self.lose(key, "is the key of a dict")
                unify(cell, inner)
        return cell

    def _starred(self, node: ast.Starred) -> Cell:
        self.lose(node.value, "is unpacked")
        return self.plain(node)

    def _await(self, node: ast.Await) -> Cell:
        self.lose(node.value, "is awaited")
        return self.plain(node)

    def _lambda(self, node: ast.Lambda) -> Cell:
        from shardlift.migrate.device_axis.statements import walk_function

        walk_function(self.program, self.file, node)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.lose(default, "is the default of a lambda")
        return Cell()

    def _comprehension(self, node: ast.expr, elements: list[ast.expr]) -> Cell:
        from shardlift.migrate.device_axis.statements import Statements

        inner = Statements(self.program, self.file, self.file.index.opens[node])
        generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
        for number, generator in enumerate(generators):
            source = self if number == 0 else inner
            inner.outer = self
            inner.bind(generator.target, each(source.value(generator.iter)))
            for condition in generator.ifs:
                inner.test(condition)
        cell = Cell()
        for element in elements:
            unify(part(cell, EACH), inner.value(element))
        return cell

    def _listcomp(self, node: ast.ListComp) -> Cell:
        return self._comprehension(node, [node.elt])

    def _setcomp(self, node: ast.SetComp) -> Cell:
        return self._comprehension(node, [node.elt])

    def _generatorexp(self, node: ast.GeneratorExp) -> Cell:
        return self._comprehension(node, [node.elt])

    def _dictcomp(self, node: ast.DictComp) -> Cell:
        # A dict of what is computed: its values are one class with it.
        inner = self._comprehension(node, [node.value])
        return tree(part(inner, EACH))

    # ---- parts

    def _subscript(self, node: ast.Subscript) -> Cell:
        base = self.value(node.value)
        index = node.slice
        if isinstance(index, ast.Constant) and isinstance(index.value, str):
            return part(base, index.value)
        if isinstance(index, ast.Constant) and type(index.value) is int:
            return self._indexed(node, base, index.value)
        if not isinstance(index, ast.Slice):
            self.lose(index, "is an index")
        escape(base, Escape(self.at(node), f"is indexed in `{self.file.brief(node)}`"))
        return self.plain(node)

    def _indexed(self, node: ast.Subscript, base: Cell, index: int) -> Cell:
        """`x[0]`: an element of a tuple or list, or the first row of an array."""
        base = find(base)
        if EACH in base.parts or any(isinstance(key, int) for key in base.parts):
            return part(base, index)
        result = Cell()
        self.program.indexed.append(Indexed(self.at(node), node, base, index, result))
        return result

    def _attribute(self, node: ast.Attribute) -> Cell:
        owner = self.instance(node.value)
        for value in self.file.values(node):
            self._handed_on(value, node)
        if owner is not None:
            if any(isinstance(value, Known) for value in self.file.values(node)):
                return self.plain(node)  # a method, or a property
            return self.program.attribute(owner.node, owner.file, node.attr)
        module = self.program.module_of(self.file, node.value)
        if module is not None:
            return self.program.every_binding(module, module.index.module, node.attr)
        self.program.unresolved(node.attr, self.at(node))
        base = self.value(node.value)
        if node.attr == "dtype":
            return self.plain(node)
        if node.attr in _OF_ARRAYS:
            escape(base, Escape(self.at(node), f"`{self.file.brief(node)}` shows its shape"))
            return self.plain(node)
        return part(base, node.attr)

    def instance(self, node: ast.expr) -> Instance | None:
        """The class of the program that an expression is an object of, if it can only be that."""
        values = self.file.values(node)
        found = [value for value in values if isinstance(value, Instance)]
        return found[0] if len(values) == 1 and found else None

    # ---- calls

    def _call(self, node: ast.Call) -> Cell:
        if node in self.program.sites:
            return self._pmap(node)
        found = idiom(self.file, node)
        if found is not None:
            return self._idiom(node, found.kind, found.tree)
        name = self.file.called(node)
        if name in _PREFETCH and node.args:
            inner = self.value(node.args[0])
            for other in node.args[1:]:
                self.lose(other, "is given to prefetch_to_device")
            add_use(part(inner, EACH), Use("prefetch", self.at(node)))
            return inner
        if name in _METRICS and len(node.args) == 1 and not node.keywords:
            # Of a list only: of anything else it would take rows.
            cell = self.value(node.args[0])
            add_use(part(cell, EACH), Use("metrics", self.at(node), node.args[0]))
            return self.plain(node)
        if name == "builtins.dict" and not node.args and all(k.arg for k in node.keywords):
            cell = Cell()
            for keyword in node.keywords:
                unify(part(cell, keyword.arg or ""), self.value(keyword.value))
            return cell
        if name in _SAME and node.args:
            return self._same(node, name or "")
        if name in TREE_MAPS:
            mapped = self._tree_mapped(node)
            if mapped is not None:
                return mapped
        if name in ("builtins.enumerate", "builtins.zip", "builtins.map"):
            return self._iterator(node, name or "")
        if isinstance(node.func, ast.Attribute) and name is None:
            found_method = self._method(node, node.func)
            if found_method is not None:
                return found_method
        return self._called(node)

    def _pmap(self, node: ast.Call) -> Cell:
        site = self.program.sites[node]
        for child in (*node.args, *(keyword.value for keyword in node.keywords)):
            values = self.file.values(child)
            if isinstance(child, ast.Name) and all(isinstance(one, Known) for one in values):
                for one in values:  # that a name stands for it here says nothing of the name later
                    self._handed_on(one, child)
            else:
                self.lose(child, "is given to pmap")
        cell = add_made(Cell(), Made("mapped", self.at(node), None, site))
        self.program.mapped.append((site, cell))
        return cell

    def _idiom(self, node: ast.Call, kind: str, tree_given: ast.expr) -> Cell:
        for child in (*node.args, *(keyword.value for keyword in node.keywords)):
            if child is not tree_given and not isinstance(child, ast.Lambda):
                self._evaluate_quietly(child)
        inner = self.value(tree_given)
        if kind == "first":
            add_use(inner, Use("first", self.at(node), tree_given))
            return self.plain(node)
        escape(inner, Escape(self.at(node), f"is given another axis by `{self.file.brief(node)}`"))
        made = add_made(Cell(), Made(kind, self.at(node), tree_given))
        self.program.tracked.append(made)
        return made

    def _evaluate_quietly(self, node: ast.expr) -> None:
        if not isinstance(node, (ast.Name, ast.Attribute)):
            self.lose(node, f"is used in `{self.file.brief(node)}`")

    def _same(self, node: ast.Call, name: str) -> Cell:
        cell = self.value(node.args[0])
        for other in (*node.args[1:], *(keyword.value for keyword in node.keywords)):
            self.lose(other, f"is given to {name.rpartition('.')[2]}")
        if name in _ITERATES:
            iterate(cell)  # of an array, that shows its rows
        return each(cell) if name == "builtins.next" else cell

    def _iterator(self, node: ast.Call, name: str) -> Cell:
        if node.keywords or any(isinstance(arg, ast.Starred) for arg in node.args):
            self._children(node)
            return self.plain(node)
        if name == "builtins.map":
            return self._map(node)
        cell = Cell()
        element = part(cell, EACH)
        sources = [each(self.value(arg)) for arg in node.args[: 1 if "enum" in name else None]]
        sources = [Cell(), *sources] if "enum" in name else sources
        for number, source in enumerate(sources):
            unify(part(element, number), source)
        return cell

    def _map(self, node: ast.Call) -> Cell:
        values = self.file.values(node.args[0])
        known = values[0] if len(values) == 1 else None
        elements = [each(self.value(arg)) for arg in node.args[1:]]
        cell = Cell()
        if isinstance(known, Known) and self.program.is_plain(known):
            if isinstance(node.args[0], ast.Lambda):
                self.value(node.args[0])
            unify(part(cell, EACH), self.enter(known, node, elements))
            return cell
        self.lose(node.args[0], "is given to map")
        for element in elements:
            escape(element, Escape(self.at(node), "is given to map"))
        return self.plain(node)

    def _tree_mapped(self, node: ast.Call) -> Cell | None:
        """A function of the program on every leaf: each has the layout of its tree."""
        if len(node.args) < 2 or node.keywords or not isinstance(node.args[0], ast.expr):
            return None
        values = self.file.values(node.args[0])
        known = values[0] if len(values) == 1 else None
        if not isinstance(known, Known) or not self.program.is_plain(known):
            return None
        if any(isinstance(arg, ast.Starred) for arg in node.args):
            return None
        if isinstance(node.args[0], ast.Lambda):
            self.value(node.args[0])
        leaves = [tree(self.value(arg)) for arg in node.args[1:]]
        return tree(self.enter(known, node, leaves))

    def _method(self, node: ast.Call, func: ast.Attribute) -> Cell | None:
        """Methods of lists, dicts, trees and arrays that say where their values go."""
        if self.instance(func.value) is not None or self.program.module_of(self.file, func.value):
            return None
        if any(isinstance(value, Known) for value in self.file.values(func)):
            return None
        arguments = [*node.args, *(keyword.value for keyword in node.keywords)]
        if any(isinstance(arg, ast.Starred) for arg in node.args):
            return None
        if func.attr in ("append", "extend", "appendleft") and len(arguments) == 1:
            base, given = self.value(func.value), self.value(arguments[0])
            unify(part(base, EACH), each(given) if func.attr == "extend" else given)
            return Cell()
        if func.attr in ("items", "values", "keys") and not arguments:
            return self._entries(func)
        if func.attr == "block_until_ready" and not arguments:
            return self.value(func.value)
        if func.attr in ("replace", "_replace") and not node.args:
            return self._replaced(func, node)
        if func.attr in ("clear", "popleft", "pop") and not arguments:
            base = self.value(func.value)
            return each(base) if func.attr != "clear" else Cell()
        return None

    def _entries(self, func: ast.Attribute) -> Cell:
        base = tree(self.value(func.value))
        cell = Cell()
        if func.attr == "items":
            entry = part(cell, EACH)
            part(entry, 0)
            unify(part(entry, 1), base)
        elif func.attr == "values":
            unify(part(cell, EACH), base)
        return cell

    def _replaced(self, func: ast.Attribute, node: ast.Call) -> Cell:
        cell = tree(self.value(func.value))
        for keyword in node.keywords:
            cell = unify(cell, tree(self.value(keyword.value)))
        return cell

    def _called(self, node: ast.Call) -> Cell:
        values = self.file.values(node.func)
        starred = any(isinstance(arg, ast.Starred) for arg in node.args)
        unpacked = any(keyword.arg is None for keyword in node.keywords)
        functions = [value for value in values if isinstance(value, Known)]
        plain = not starred and not unpacked
        known = functions and len(functions) == len(values) and plain
        if known and all(self.program.is_plain(one) for one in functions):
            return self._enter_all(functions, node)
        constructed = [v for v in functions if isinstance(v.node, ast.ClassDef)]
        if len(constructed) == len(values) == 1 and plain:
            return self._construct(constructed[0], node)
        function = self._function(node.func)
        arguments = [
            self.value(arg.value if isinstance(arg, ast.Starred) else arg) for arg in node.args
        ]
        named = [self.value(keyword.value) for keyword in node.keywords]
        result = Cell()
        pending = PendingCall(self.at(node), node, function, arguments, named, result, plain)
        self.program.pending.append(pending)
        return result

    def _function(self, node: ast.expr) -> Cell:
        """The cell of what is called; to call something does not hand it on."""
        if isinstance(node, ast.Name):
            values = self.file.values(node)
            functions = [value for value in values if isinstance(value, Known)]
            for one in functions:
                self._handed_on(one, node)
            return self.lookup(node)
        if isinstance(node, ast.Attribute) and self.instance(node.value) is None:
            module = self.program.module_of(self.file, node.value)
            if module is None and self.file.name(node) is None:
                # A method of a value that is not followed: the value may give itself away.
                self.program.unresolved(node.attr, self.at(node))
                self.lose(node.value, f"`{self.file.brief(node)}` is called")
                return self.plain(node)
            if module is None:
                return self.plain(node)
        return self.value(node)

    def _enter_all(self, functions: list[Known], node: ast.Call) -> Cell:
        arguments = [self.value(arg) for arg in node.args]
        named = {keyword.arg or "": self.value(keyword.value) for keyword in node.keywords}
        result = Cell()
        for one in functions:
            result = unify(result, self.enter(one, node, arguments, named))
        return result

    def _construct(self, known: Known, node: ast.Call) -> Cell:
        """An object of a class of the program: its `__init__` is called."""
        assert isinstance(known.node, ast.ClassDef)
        inits = list(known.file.resolver.member(known.node, "__init__"))
        if len(inits) == 1 and isinstance(inits[0], Known) and self.program.is_plain(inits[0]):
            self._enter_all([inits[0]], node)
            return self.plain(node)
        for child in (*node.args, *(keyword.value for keyword in node.keywords)):
            self.lose(child, f"is put into an object of {known.node.name}")
        return self.plain(node)

    def enter(
        self,
        known: Known,
        node: ast.Call,
        arguments: list[Cell],
        named: Mapping[str, Cell] | None = None,
    ) -> Cell:
        """Call a function of the program: arguments become parameters."""
        called = self.program.function(known)
        called.calls += 1
        assert isinstance(known.node, FUNCTIONS)
        names = positional(known.node)[self._bound(known) :]
        signature = known.node.args
        every = {a.arg: a for a in (*signature.posonlyargs, *signature.args, *signature.kwonlyargs)}
        given = dict(zip(names, arguments, strict=False)) | dict(named or {})
        for name, cell in given.items():
            if name in every:
                unify(self.program.binding(every[name]), cell)
            else:
                escape(cell, Escape(self.at(node), "is given to **kwargs"))
        for cell in arguments[len(names) :]:
            escape(cell, Escape(self.at(node), "is given to *args"))
        return called.result

    def _bound(self, known: Known) -> int:
        owner = known.file.index.parents.get(known.node)
        decorators = getattr(known.node, "decorator_list", [])
        static = any(known.file.name(one) == "builtins.staticmethod" for one in decorators)
        return int(isinstance(owner, ast.ClassDef) and not static)
