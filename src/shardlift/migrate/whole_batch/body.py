"""A step, followed with the kinds of its values: one function per type of node.

The functions are in `statements`, `expressions` and `calls`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

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
    is_same,
    join,
    kinds,
    part,
)
from shardlift.source.file import File
from shardlift.source.scopes import positional

_DEEPEST = 20  # functions that call one another
Follow = Callable[["Scope", Any], Value | None]
_Follow = TypeVar("_Follow", bound=Follow)
_FOLLOWS: dict[type[ast.AST], Follow] = {}


def follows(*types: type[ast.AST]) -> Callable[[_Follow], _Follow]:
    """Register the function that follows the nodes of some types."""

    def register(follow: _Follow) -> _Follow:
        _FOLLOWS.update(dict.fromkeys(types, follow))
        return follow

    return register


class Body:
    """Follows one step. `removed` are the collectives that the whole batch does without."""

    def __init__(self, axis_name: str, site: ast.expr) -> None:
        """`site` may be the decorator of the step."""
        self._site = site
        self.axis_name = axis_name
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

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Follow statements one after the other."""
        for statement in body:
            self._follow(statement)

    def condition(self, node: ast.expr) -> None:
        """A test has to give the same on all devices and for the whole batch."""
        if not is_same([self.value(node)]):
            raise self.refuse(node, f"`{self.file.brief(node)}` is decided on each device")

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
                self.bind(inner, self.part_of(target, value, number))
        elif isinstance(target, ast.Subscript):
            self._set_item(target, value)
        else:
            raise self.refuse(target, f"`{self.file.brief(target)}` is set")

    def _set_item(self, target: ast.Subscript, value: Value) -> None:
        base, key = target.value, literal_key(target.slice)
        old = self.frame.names.get(base.id) if isinstance(base, ast.Name) else None
        if not isinstance(key, str) or not isinstance(old, Parts):
            raise self.refuse(target, f"`{self.file.brief(target)}` is set")
        assert isinstance(base, ast.Name)
        self.frame.names[base.id] = Parts({**old.items, key: value}, old.rest)

    def value(self, node: ast.expr) -> Value:
        """The value of an expression."""
        value = self._follow(node)
        assert value is not None  # only a statement has none
        return value

    def _follow(self, node: ast.stmt | ast.expr) -> Value | None:
        follow = _FOLLOWS.get(type(node))
        if follow is None:
            raise self.refuse(node, f"`{self.file.brief(node)}` is not followed")
        return follow(self, node)

    def is_library(self, node: ast.expr) -> bool:
        """Whether an expression names something of a library."""
        root = node
        while isinstance(root, ast.Attribute):
            root = root.value
        local = self.frame.find(root.id) if isinstance(root, ast.Name) else SAME
        return local is None and self.file.name(node) is not None

    def part_of(self, node: ast.AST, base: Value, key: Key) -> Value:
        """An element or an attribute of a value."""
        found = part(base, key)
        if found is None:
            raise self.refuse(node, f"`{self.file.brief(node)}` is not followed")
        return found

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

    def rowwise(self, node: ast.AST, values: Sequence[Value]) -> Value:
        """The value of something that is done to each row on its own."""
        found = {kind for value in values for kind in kinds(value)}
        if any(isinstance(value, Code) for value in values) or not found <= {Kind.SAME, Kind.ROWS}:
            raise self.refuse(node, f"`{self.file.brief(node)}` {self.because(*values)}")
        return Tree(Kind.ROWS if Kind.ROWS in found else Kind.SAME)

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


def _changes_nothing(file: File, decorator: ast.expr) -> bool:
    """Whether a decorator returns a function that computes the same."""
    call = decorator if isinstance(decorator, ast.Call) else None
    if call is not None and file.called(call) == "functools.partial" and call.args:
        decorator = call.args[0]
    name = file.name(decorator)
    return name in SAME_FUNCTION or name == "builtins.staticmethod"


def literal_key(node: ast.expr) -> Key | None:
    """A literal key; -1 and True are none."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) or type(value) is int else None
