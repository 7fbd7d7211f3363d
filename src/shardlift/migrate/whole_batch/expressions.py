"""The kind of the value of each expression of a step."""

from __future__ import annotations

import ast

from shardlift.migrate.device_axis.cells import Place
from shardlift.migrate.whole_batch.body import Scope, follows, literal_key
from shardlift.migrate.whole_batch.kinds import Kind
from shardlift.migrate.whole_batch.values import (
    SAME,
    Code,
    Frame,
    Parts,
    Shape,
    Tree,
    Value,
    is_plain_index,
    is_same,
    kinds,
)
from shardlift.source.values import Known

# Attributes of an array that say nothing about its rows; others of an array are not followed.
_TYPES = ("dtype", "ndim", "weak_type")
_OF_ARRAYS = frozenset({"T", "mT", "size", "nbytes", "at", "flat", "real", "imag", "itemsize"})


@follows(ast.Constant)
def _constant(_: Scope, __: ast.Constant) -> Value:
    return SAME


@follows(ast.Name)
def _name(s: Scope, node: ast.Name) -> Value:
    local = s.frame.find(node.id)
    return local if local is not None else _outside(s, node)


def _outside(s: Scope, node: ast.expr) -> Value:
    """A global, or a name around the step: a constant of the program, or a function."""
    value = s.file.only(node)
    if isinstance(value, Known) and not isinstance(value.node, ast.ClassDef):
        return Code(value.node, value.file)
    return SAME


@follows(ast.Attribute)
def _attribute(s: Scope, node: ast.Attribute) -> Value:
    if s.is_library(node):
        return SAME
    if isinstance(s.file.only(node), Known):
        return _outside(s, node)
    base = s.value(node.value)
    if isinstance(base, Tree) and base.kind is Kind.ROWS:
        if node.attr == "shape":
            return Shape()
        if node.attr in _OF_ARRAYS:
            raise s.refuse(node, f"`{s.file.brief(node)}` is about all rows of a device")
    if isinstance(base, Tree) and node.attr in ("shape", *_TYPES):
        return SAME
    return s.part_of(node, base, node.attr)


@follows(ast.Subscript)
def _subscript(s: Scope, node: ast.Subscript) -> Value:
    base, key = s.value(node.value), literal_key(node.slice)
    if isinstance(base, Shape):
        return _of_shape(s, node)
    if isinstance(base, Parts) and key is not None:
        return s.part_of(node, base, key)
    if is_same([base]) and not isinstance(node.slice, (ast.Slice, ast.Tuple)):
        return _looked_up(s, node, s.value(node.slice))
    _need_same(s, node.slice)
    if not isinstance(base, Tree):
        raise s.refuse(node, f"`{s.file.brief(node)}` is not followed")
    if base.kind is Kind.ROWS and not isinstance(key, str) and not is_plain_index(node.slice):
        raise s.refuse(node, f"`{s.file.brief(node)}` takes some rows of each device")
    return base


def _looked_up(s: Scope, node: ast.Subscript, index: Value) -> Value:
    """`table[rows]`: a row of the table for each of them."""
    if not isinstance(index, Tree) or index.kind not in (Kind.SAME, Kind.ROWS):
        raise s.refuse(node, f"`{s.file.brief(node)}` is not followed")
    return index


def _of_shape(s: Scope, node: ast.Subscript) -> Value:
    index = node.slice
    if isinstance(index, ast.Slice) and index.upper is None and index.step is None:
        index = index.lower if index.lower is not None else index
    number = index.value if isinstance(index, ast.Constant) else None
    if type(number) is not int:
        raise s.refuse(node, f"`{s.file.brief(node)}` may be the number of rows")
    if number == 0 and not isinstance(node.slice, ast.Slice):
        return Tree(Kind.COUNT)
    return SAME if number > 0 else Shape()


def _need_same(s: Scope, node: ast.expr) -> None:
    children = node.elts if isinstance(node, ast.Tuple) else [node]
    for child in children:
        bounds = (
            (child.lower, child.upper, child.step) if isinstance(child, ast.Slice) else (child,)
        )
        for bound in bounds:
            if bound is not None and not is_same([s.value(bound)]):
                raise s.refuse(
                    node, f"the index `{s.file.brief(node)}` is not the same on all devices"
                )


@follows(ast.BinOp)
def _operation(s: Scope, node: ast.BinOp) -> Value:
    return s.operation(node, node.op, s.value(node.left), s.value(node.right))


@follows(ast.UnaryOp)
def _unary(s: Scope, node: ast.UnaryOp) -> Value:
    value = s.value(node.operand)
    linear = isinstance(node.op, (ast.USub, ast.UAdd))
    if linear or is_same([value]) or value == Tree(Kind.ROWS):
        return value
    raise s.refuse(node, f"`{s.file.brief(node)}` {s.because(value)}")


@follows(ast.Compare, ast.BoolOp)
def _test(s: Scope, node: ast.Compare | ast.BoolOp) -> Value:
    inner = [node.left, *node.comparators] if isinstance(node, ast.Compare) else node.values
    return s.rowwise(node, [s.value(one) for one in inner])


@follows(ast.IfExp)
def _either(s: Scope, node: ast.IfExp) -> Value:
    s.condition(node.test)
    values = [s.value(node.body), s.value(node.orelse)]
    return s.joined(values, Place(s.file, node))


@follows(ast.Tuple, ast.List)
def _display(s: Scope, node: ast.Tuple | ast.List) -> Value:
    if any(isinstance(element, ast.Starred) for element in node.elts):
        inner = [s.value(e.value if isinstance(e, ast.Starred) else e) for e in node.elts]
        return s.joined(inner, Place(s.file, node))
    return Parts({k: s.value(element) for k, element in enumerate(node.elts)})


@follows(ast.Dict)
def _dict(s: Scope, node: ast.Dict) -> Value:
    result = Parts({})
    for key, child in zip(node.keys, node.values, strict=True):
        value, name = s.value(child), literal_key(key) if key is not None else None
        if key is None and isinstance(value, Parts) and value.rest is None:
            result = Parts({**result.items, **value.items}, result.rest)
        elif key is None and isinstance(value, Tree) and not result.items:
            result = Parts({}, value)
        elif isinstance(name, str):
            result = Parts({**result.items, name: value}, result.rest)
        elif not is_same([value]):
            raise s.refuse(node, f"the keys of `{s.file.brief(node)}` are not known")
    return result


@follows(ast.Lambda)
def _lambda(s: Scope, node: ast.Lambda) -> Value:
    return Code(node, s.file, s.frame)


@follows(ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)
def _comprehension(
    s: Scope, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp
) -> Value:
    inner = Scope(s.body, s.file, Frame({}, s.frame))
    for generator in node.generators:
        inner.bind(generator.target, inner.element(generator.iter))
        for test in generator.ifs:
            inner.condition(test)
    if isinstance(node, ast.DictComp) and not is_same([inner.value(node.key)]):
        raise s.refuse(node, "the keys of a dict are computed from rows")
    value = inner.value(node.value if isinstance(node, ast.DictComp) else node.elt)
    found = kinds(value)
    if len(found) != 1 or Kind.COUNT in found:
        raise s.refuse(node, f"`{s.file.brief(node)}` is not followed")
    return Tree(found.pop())


@follows(ast.JoinedStr, ast.FormattedValue)
def _text(s: Scope, node: ast.JoinedStr | ast.FormattedValue) -> Value:
    inner = node.values if isinstance(node, ast.JoinedStr) else [node.value]
    if not is_same([s.value(one) for one in inner]):
        raise s.refuse(node, f"`{s.file.brief(node)}` shows a value of one device")
    return SAME
