"""The statements and expressions of a step, followed with the kinds of their values."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from shardlift.migrate.device_axis.cells import Key, Place
from shardlift.migrate.whole_batch.functions import SAME_FUNCTION
from shardlift.migrate.whole_batch.kinds import Kind, combine, matmul
from shardlift.migrate.whole_batch.values import (
    SAME,
    Code,
    Frame,
    Parts,
    RefusalError,
    Shape,
    Tree,
    Value,
    is_plain_index,
    is_same,
    join,
    kinds,
    part,
)
from shardlift.source.file import File
from shardlift.source.scopes import positional
from shardlift.source.values import Known

_DEEPEST = 20  # functions that call one another
_ROUNDS = 4  # of a loop, until the kinds of its names no longer change
# Attributes of an array that say nothing about its rows; others of an array are not followed.
_TYPES = ("dtype", "ndim", "weak_type")
_OF_ARRAYS = frozenset({"T", "mT", "size", "nbytes", "at", "flat", "real", "imag", "itemsize"})


class Body:
    """Follows one step. `removed` are the collectives that the whole batch does without."""

    def __init__(
        self, axis_name: str, calls: Callable[[Scope, ast.Call], Value], site: ast.expr
    ) -> None:
        """`calls` follows a call: see `calls.follow`. `site` may be the decorator of the step."""
        self._site = site
        self.axis_name = axis_name
        self.calls = calls
        self.removed: dict[ast.Call, File] = {}
        self.followed: dict[ast.AST, File] = {}  # functions
        self.differentiating = 0  # functions around that a gradient is taken of
        self._depth = 0

    def run(
        self, code: Code, at: Place, args: Sequence[Value], named: Mapping[str, Value]
    ) -> Value:
        """The value that a function of the program returns."""
        node = code.node
        if self._depth >= _DEEPEST:
            raise RefusalError(at, "functions call one another too deeply")
        if isinstance(node, ast.AsyncFunctionDef):
            raise RefusalError(at, "a coroutine is not followed")
        for decorator in getattr(node, "decorator_list", ()):
            if decorator is not self._site and not _changes_nothing(code.file, decorator):
                shown = code.file.brief(decorator)
                raise RefusalError(Place(code.file, node), f"the decorator {shown} is not followed")
        self.followed[node] = code.file
        frame = Frame(
            self._arguments(code, at, [*code.args, *args], {**code.named, **named}), code.frame
        )
        scope = Scope(self, code.file, frame)
        self._depth += 1
        try:
            if isinstance(node, ast.Lambda):
                return scope.value(node.body)
            scope.block(node.body)
        finally:
            self._depth -= 1
        return scope.joined(frame.returned or [SAME], at)

    def _arguments(
        self, code: Code, at: Place, args: Sequence[Value], named: Mapping[str, Value]
    ) -> dict[str, Value]:
        signature, names = code.node.args, positional(code.node)
        every = {*names, *(one.arg for one in signature.kwonlyargs)}
        given = dict(zip(names, args, strict=False)) | dict(named)
        if len(args) > len(names) or not given.keys() <= every or signature.vararg:
            raise RefusalError(at, "its arguments cannot be matched with the parameters")
        # Defaults are computed once, outside of the step.
        return {**dict.fromkeys(every, SAME), **given}


class Scope:
    """The statements and expressions of one function."""

    def __init__(self, body: Body, file: File, frame: Frame) -> None:
        """`frame` has the names of the function."""
        self.body, self.file, self.frame = body, file, frame

    def refuse(self, node: ast.AST, why: str) -> RefusalError:
        """The reason for which the step is not rewritten."""
        return RefusalError(Place(self.file, node), why)

    def joined(self, values: Sequence[Value], at: Place) -> Value:
        """One of several values, which have to be of one kind."""
        result = values[0]
        for other in values[1:]:
            both = join(result, other)
            if both is None:
                raise RefusalError(at, "branches give values of different kinds")
            result = both
        return result

    # ---- statements

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Follow statements one after the other."""
        for statement in body:
            follow = _STATEMENTS.get(type(statement))
            if follow is None:
                raise self.refuse(statement, f"`{self.file.brief(statement)}` is not followed")
            follow(self, statement)

    def _return(self, node: ast.Return) -> None:
        self.frame.returned.append(self.value(node.value) if node.value is not None else SAME)

    def _assign(self, node: ast.Assign | ast.AnnAssign) -> None:
        if node.value is not None:
            value = self.value(node.value)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                self.bind(target, value)

    def _augmented(self, node: ast.AugAssign) -> None:
        if not isinstance(node.target, ast.Name):
            raise self.refuse(node, "a value is changed in place")
        name = ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target)
        left = self.frame.find(node.target.id) or self.value(name)
        self.bind(node.target, self.operation(node, node.op, left, self.value(node.value)))

    def _expression(self, node: ast.Expr) -> None:
        self.value(node.value)

    def _define(self, node: ast.FunctionDef) -> None:
        self.frame.names[node.name] = Code(node, self.file, self.frame)

    def _if(self, node: ast.If) -> None:
        self.condition(node.test)
        before = dict(self.frame.names)
        self.block(node.body)
        after, self.frame.names = self.frame.names, before
        self.block(node.orelse)
        self._merge(after, node)

    def condition(self, node: ast.expr) -> None:
        """A test has to give the same on all devices and for the whole batch."""
        if not is_same([self.value(node)]):
            raise self.refuse(node, f"`{self.file.brief(node)}` is decided on each device")

    def _merge(self, other: Mapping[str, Value], node: ast.AST) -> None:
        at = Place(self.file, node)
        for name, value in other.items():
            mine = self.frame.names.get(name, value)
            self.frame.names[name] = self.joined([mine, value], at)

    def _for(self, node: ast.For) -> None:
        element = self.element(node.iter)
        for _ in range(_ROUNDS):
            before = dict(self.frame.names)
            self.bind(node.target, element)
            self.block(node.body)
            self._merge(before, node)
            if self.frame.names == before:
                break
        else:
            raise self.refuse(node, "the values of a loop change their kind")
        self.block(node.orelse)

    def _with(self, node: ast.With) -> None:
        for item in node.items:
            if not is_same([self.value(item.context_expr)]) or item.optional_vars is not None:
                raise self.refuse(node, "the context is not followed")
        self.block(node.body)

    def _nothing(self, node: ast.stmt) -> None:
        """`pass`, an import, an assertion: no value changes its kind."""

    def _assert(self, node: ast.Assert) -> None:
        self.condition(node.test)

    def bind(self, target: ast.expr, value: Value) -> None:
        """Give a value to a target."""
        if isinstance(target, ast.Name):
            self.frame.names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            if isinstance(value, Shape):
                value = Parts({0: Tree(Kind.COUNT)}, SAME)
            for number, inner in enumerate(target.elts):
                if isinstance(inner, ast.Starred):
                    if not is_same([value]):
                        raise self.refuse(target, "a part of a value is unpacked")
                    inner = inner.value
                # If it were one array of rows, the whole batch could not be unpacked.
                self.bind(inner, self._part(target, value, number))
        elif isinstance(target, ast.Subscript):
            self._set_item(target, value)
        else:
            raise self.refuse(target, f"`{self.file.brief(target)}` is set")

    def _set_item(self, target: ast.Subscript, value: Value) -> None:
        base, key = target.value, _key(target.slice)
        old = self.frame.names.get(base.id) if isinstance(base, ast.Name) else None
        if not isinstance(key, str) or not isinstance(old, Parts):
            raise self.refuse(target, f"`{self.file.brief(target)}` is set")
        assert isinstance(base, ast.Name)
        self.frame.names[base.id] = Parts({**old.items, key: value}, old.rest)

    # ---- expressions

    def value(self, node: ast.expr) -> Value:
        """The value of an expression."""
        follow = _EXPRESSIONS.get(type(node))
        if follow is None:
            raise self.refuse(node, f"`{self.file.brief(node)}` is not followed")
        value: Value = follow(self, node)
        return value

    def _constant(self, _: ast.Constant) -> Value:
        return SAME

    def _name(self, node: ast.Name) -> Value:
        local = self.frame.find(node.id)
        return local if local is not None else self._outside(node)

    def _outside(self, node: ast.expr) -> Value:
        """A global, or a name around the step: a constant of the program, or a function."""
        value = self.file.only(node)
        if isinstance(value, Known) and not isinstance(value.node, ast.ClassDef):
            return Code(value.node, value.file)
        return SAME

    def _attribute(self, node: ast.Attribute) -> Value:
        if self.is_library(node):
            return SAME
        if isinstance(self.file.only(node), Known):
            return self._outside(node)
        base = self.value(node.value)
        if isinstance(base, Tree) and base.kind is Kind.ROWS:
            if node.attr == "shape":
                return Shape()
            if node.attr in _OF_ARRAYS:
                raise self.refuse(node, f"`{self.file.brief(node)}` is about all rows of a device")
        if isinstance(base, Tree) and node.attr in ("shape", *_TYPES):
            return SAME
        return self._part(node, base, node.attr)

    def is_library(self, node: ast.expr) -> bool:
        """Whether an expression names something of a library."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        local = self.frame.find(root.id) if isinstance(root, ast.Name) else SAME
        return local is None and self.file.name(node) is not None

    def _part(self, node: ast.AST, base: Value, key: Key) -> Value:
        found = part(base, key)
        if found is None:
            raise self.refuse(node, f"`{self.file.brief(node)}` is not followed")
        return found

    def _subscript(self, node: ast.Subscript) -> Value:
        base, key = self.value(node.value), _key(node.slice)
        if isinstance(base, Shape):
            return self._of_shape(node)
        if isinstance(base, Parts) and key is not None:
            return self._part(node, base, key)
        if is_same([base]) and not isinstance(node.slice, (ast.Slice, ast.Tuple)):
            return self._looked_up(node, self.value(node.slice))
        self._need_same(node.slice)
        if not isinstance(base, Tree):
            raise self.refuse(node, f"`{self.file.brief(node)}` is not followed")
        if base.kind is Kind.ROWS and not isinstance(key, str) and not is_plain_index(node.slice):
            raise self.refuse(node, f"`{self.file.brief(node)}` takes some rows of each device")
        return base

    def _looked_up(self, node: ast.Subscript, index: Value) -> Value:
        """`table[rows]`: a row of the table for each of them."""
        if not isinstance(index, Tree) or index.kind not in (Kind.SAME, Kind.ROWS):
            raise self.refuse(node, f"`{self.file.brief(node)}` is not followed")
        return index

    def _of_shape(self, node: ast.Subscript) -> Value:
        index = node.slice
        if isinstance(index, ast.Slice) and index.upper is None and index.step is None:
            index = index.lower if index.lower is not None else index
        number = index.value if isinstance(index, ast.Constant) else None
        if type(number) is not int:
            raise self.refuse(node, f"`{self.file.brief(node)}` may be the number of rows")
        if number == 0 and not isinstance(node.slice, ast.Slice):
            return Tree(Kind.COUNT)
        return SAME if number > 0 else Shape()

    def _need_same(self, node: ast.expr) -> None:
        children = node.elts if isinstance(node, ast.Tuple) else [node]
        for child in children:
            bounds = (
                (child.lower, child.upper, child.step) if isinstance(child, ast.Slice) else (child,)
            )
            for bound in bounds:
                if bound is not None and not is_same([self.value(bound)]):
                    raise self.refuse(
                        node, f"the index `{self.file.brief(node)}` is not the same on all devices"
                    )

    def _operation(self, node: ast.BinOp) -> Value:
        return self.operation(node, node.op, self.value(node.left), self.value(node.right))

    def operation(self, node: ast.AST, operator: ast.operator, left: Value, right: Value) -> Value:
        """The value of a binary operation."""
        if is_same([left, right]):
            return SAME
        if isinstance(left, Tree) and isinstance(right, Tree):
            two = left.kind, right.kind
            found = matmul(*two) if isinstance(operator, ast.MatMult) else combine(operator, *two)
            if found is not None:
                return Tree(found)
        raise self.refuse(node, f"`{self.file.brief(node)}` {self.because(left, right)}")

    def because(self, *values: Value) -> str:
        """Why an operation on these values is refused."""
        found = [kind for kind in Kind if any(kind in kinds(v) for v in values)]
        others = [kind for kind in found if kind is not Kind.SAME] or found
        if Kind.MEAN in others or Kind.SUM in others:
            first = Kind.MEAN if Kind.MEAN in others else Kind.SUM
            return f"computes with {first} before it is reduced over the devices"
        return f"computes with {' and '.join(others)}"

    def _unary(self, node: ast.UnaryOp) -> Value:
        value = self.value(node.operand)
        linear = isinstance(node.op, (ast.USub, ast.UAdd))
        if linear or is_same([value]) or value == Tree(Kind.ROWS):
            return value
        raise self.refuse(node, f"`{self.file.brief(node)}` {self.because(value)}")

    def _test(self, node: ast.Compare | ast.BoolOp) -> Value:
        inner = [node.left, *node.comparators] if isinstance(node, ast.Compare) else node.values
        return self.rowwise(node, [self.value(one) for one in inner])

    def rowwise(self, node: ast.AST, values: Sequence[Value]) -> Value:
        """The value of something that is done to each row on its own."""
        found = {kind for value in values for kind in kinds(value)}
        if any(isinstance(value, Code) for value in values) or not found <= {Kind.SAME, Kind.ROWS}:
            raise self.refuse(node, f"`{self.file.brief(node)}` {self.because(*values)}")
        return Tree(Kind.ROWS if Kind.ROWS in found else Kind.SAME)

    def _either(self, node: ast.IfExp) -> Value:
        self.condition(node.test)
        values = [self.value(node.body), self.value(node.orelse)]
        return self.joined(values, Place(self.file, node))

    def _display(self, node: ast.Tuple | ast.List) -> Value:
        if any(isinstance(element, ast.Starred) for element in node.elts):
            inner = [self.value(e.value if isinstance(e, ast.Starred) else e) for e in node.elts]
            return self.joined(inner, Place(self.file, node))
        return Parts({k: self.value(element) for k, element in enumerate(node.elts)})

    def _dict(self, node: ast.Dict) -> Value:
        result = Parts({})
        for key, child in zip(node.keys, node.values, strict=True):
            value, name = self.value(child), _key(key) if key is not None else None
            if key is None and isinstance(value, Parts) and value.rest is None:
                result = Parts({**result.items, **value.items}, result.rest)
            elif key is None and isinstance(value, Tree) and not result.items:
                result = Parts({}, value)
            elif isinstance(name, str):
                result = Parts({**result.items, name: value}, result.rest)
            elif not is_same([value]):
                raise self.refuse(node, f"the keys of `{self.file.brief(node)}` are not known")
        return result

    def _lambda(self, node: ast.Lambda) -> Value:
        return Code(node, self.file, self.frame)

    def _comprehension(
        self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp
    ) -> Value:
        inner = Scope(self.body, self.file, Frame({}, self.frame))
        for generator in node.generators:
            inner.bind(generator.target, inner.element(generator.iter))
            for test in generator.ifs:
                inner.condition(test)
        if isinstance(node, ast.DictComp) and not is_same([inner.value(node.key)]):
            raise self.refuse(node, "the keys of a dict are computed from rows")
        value = inner.value(node.value if isinstance(node, ast.DictComp) else node.elt)
        found = kinds(value)
        if len(found) != 1 or Kind.COUNT in found:
            raise self.refuse(node, f"`{self.file.brief(node)}` is not followed")
        return Tree(found.pop())

    def element(self, node: ast.expr) -> Value:
        """An element of what is iterated over; rows are not taken one by one."""
        name = self.file.called(node)
        if isinstance(node, ast.Call) and name in ("builtins.zip", "builtins.enumerate"):
            inner = [self.element(argument) for argument in node.args]
            return Parts(dict(enumerate([SAME, *inner] if name.endswith("enumerate") else inner)))
        is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if isinstance(node, ast.Call) and is_method and not node.args and not node.keywords:
            assert isinstance(node.func, ast.Attribute)
            if node.func.attr in ("items", "values"):
                of_dict = self._element_of(node, self.value(node.func.value), True)
                return of_dict if node.func.attr == "values" else Parts({0: SAME, 1: of_dict})
        return self._element_of(node, self.value(node), False)

    def _element_of(self, node: ast.expr, value: Value, of_dict: bool) -> Value:
        if isinstance(value, Parts) and value.items and value.rest is None:
            if of_dict or all(isinstance(key, int) for key in value.items):
                return self.joined([*value.items.values()], Place(self.file, node))
            return SAME  # the keys of a dict
        if isinstance(value, Tree) and (of_dict or value.kind is not Kind.ROWS):
            return value
        raise self.refuse(node, f"the rows of `{self.file.brief(node)}` are iterated over")

    def _text(self, node: ast.JoinedStr | ast.FormattedValue) -> Value:
        inner = node.values if isinstance(node, ast.JoinedStr) else [node.value]
        if not is_same([self.value(one) for one in inner]):
            raise self.refuse(node, f"`{self.file.brief(node)}` shows a value of one device")
        return SAME

    def _call(self, node: ast.Call) -> Value:
        return self.body.calls(self, node)


def _changes_nothing(file: File, decorator: ast.expr) -> bool:
    """Whether a decorator returns a function that computes the same."""
    call = decorator if isinstance(decorator, ast.Call) else None
    if call is not None and file.called(call) == "functools.partial" and call.args:
        decorator = call.args[0]
    name = file.name(decorator)
    return name in SAME_FUNCTION or name == "builtins.staticmethod"


def _key(node: ast.expr) -> Key | None:
    """A literal key; -1 and True are none."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) or type(value) is int else None


_STATEMENTS: dict[type[ast.stmt], Callable[[Scope, Any], None]] = {
    ast.Return: Scope._return,
    ast.Assign: Scope._assign,
    ast.AnnAssign: Scope._assign,
    ast.AugAssign: Scope._augmented,
    ast.Expr: Scope._expression,
    ast.FunctionDef: Scope._define,
    ast.If: Scope._if,
    ast.For: Scope._for,
    ast.With: Scope._with,
    ast.Assert: Scope._assert,
    ast.Pass: Scope._nothing,
    ast.Import: Scope._nothing,
    ast.ImportFrom: Scope._nothing,
}
_EXPRESSIONS: dict[type[ast.expr], Callable[[Scope, Any], Value]] = {
    ast.Constant: Scope._constant,
    ast.Name: Scope._name,
    ast.Attribute: Scope._attribute,
    ast.Subscript: Scope._subscript,
    ast.BinOp: Scope._operation,
    ast.UnaryOp: Scope._unary,
    ast.Compare: Scope._test,
    ast.BoolOp: Scope._test,
    ast.IfExp: Scope._either,
    ast.Tuple: Scope._display,
    ast.List: Scope._display,
    ast.Dict: Scope._dict,
    ast.Lambda: Scope._lambda,
    ast.ListComp: Scope._comprehension,
    ast.GeneratorExp: Scope._comprehension,
    ast.SetComp: Scope._comprehension,
    ast.DictComp: Scope._comprehension,
    ast.JoinedStr: Scope._text,
    ast.FormattedValue: Scope._text,
    ast.Call: Scope._call,
}
