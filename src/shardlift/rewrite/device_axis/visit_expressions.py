"""How each expression passes on the values inside of it."""

from __future__ import annotations

import ast

from shardlift.rewrite.device_axis.cells import (
    EACH,
    Cell,
    collapse,
    each,
    find,
    part,
    tree,
    unify,
)
from shardlift.rewrite.device_axis.followed_program import Indexed
from shardlift.rewrite.device_axis.visitor import Visitor, visits
from shardlift.source.file import File
from shardlift.source.values import Known

# Attributes and methods of arrays that show their shape or rows.
_OF_ARRAYS = frozenset(
    {
        "shape", "ndim", "size", "T", "at", "sharding", "devices", "addressable_shards", "nbytes",
        "addressable_data", "real", "imag", "mT", "flat", "itemsize", "global_shards",
    }
)  # fmt: skip
_Sequence = ast.ListComp | ast.SetComp | ast.GeneratorExp
_ABOUT_CLASSES = frozenset({"__name__", "__qualname__", "__module__", "__doc__"})


@visits(ast.Name)
def _name(v: Visitor, node: ast.Name) -> Cell:
    for value in v.file.values(node):
        v.hand_on(value, node)
    return v.lookup(node)


@visits(ast.NamedExpr)
def _named_expression(v: Visitor, node: ast.NamedExpr) -> Cell:
    cell = v.value(node.value)
    v.bind(node.target, cell)
    return cell


@visits(ast.IfExp)
def _if_expression(v: Visitor, node: ast.IfExp) -> Cell:
    v.test(node.test)
    return unify(v.value(node.body), v.value(node.orelse))


@visits(ast.BoolOp)
def _bool_operation(v: Visitor, node: ast.BoolOp) -> Cell:
    cell = Cell()
    for value in node.values:
        cell = unify(cell, v.value(value))
    return cell


@visits(ast.Compare)
def _compare(v: Visitor, node: ast.Compare) -> Cell:
    is_key = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
    of_objects = (ast.Is, ast.IsNot, *((ast.In, ast.NotIn) if is_key else ()))
    if all(isinstance(op, of_objects) for op in node.ops):  # the keys of a dict stay
        for operand in (node.left, *node.comparators):
            v.value(operand)
    else:
        v.lose_children(node)
    return Cell()


@visits(ast.Tuple)
def _tuple(v: Visitor, node: ast.Tuple) -> Cell:
    if any(isinstance(element, ast.Starred) for element in node.elts):
        v.lose_children(node)
        return v.untraced(node)
    cell = Cell()
    for number, element in enumerate(node.elts):
        unify(part(cell, number), v.value(element))
    return cell


@visits(ast.List)
def _list(v: Visitor, node: ast.List) -> Cell:
    cell = Cell()
    part(cell, EACH)
    for element in node.elts:
        is_starred = isinstance(element, ast.Starred)
        given = v.value(element.value if isinstance(element, ast.Starred) else element)
        unify(part(cell, EACH), each(given) if is_starred else given)
    return cell


@visits(ast.Dict)
def _dict(v: Visitor, node: ast.Dict) -> Cell:
    cell = Cell()
    if not all(k is None or _is_text(k) for k in node.keys):
        collapse(cell)  # what it holds is in its class
    for key, value in zip(node.keys, node.values, strict=True):
        inner = v.value(value)
        if key is None:
            cell = unify(collapse(cell), collapse(inner))
        elif isinstance(key, ast.Constant) and isinstance(key.value, str):
            unify(part(cell, key.value), inner)
        else:
            v.lose(key, "is the key of a dict")
            unify(cell, inner)
    return cell


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


@visits(ast.Yield, ast.YieldFrom)
def _yield(v: Visitor, node: ast.Yield | ast.YieldFrom) -> Cell:
    cell = v.value(node.value) if node.value is not None else Cell()
    if v.called is not None:
        element = each(cell) if isinstance(node, ast.YieldFrom) else cell
        unify(part(v.called.result, EACH), element)
    return v.untraced(node)


@visits(ast.Lambda)
def _lambda(v: Visitor, node: ast.Lambda) -> Cell:
    v.parameters(node.args)
    v.function(node)
    return Cell()


@visits(ast.ListComp, ast.SetComp, ast.GeneratorExp)
def _comprehension(v: Visitor, node: _Sequence) -> Cell:
    return _comprehended(v, node, node.elt)


@visits(ast.DictComp)
def _dict_comprehension(v: Visitor, node: ast.DictComp) -> Cell:
    # A dict whose keys are computed: its values are one class with it.
    return tree(part(_comprehended(v, node, node.value, node.key), EACH))


def _comprehended(
    v: Visitor, node: _Sequence | ast.DictComp, element: ast.expr, key: ast.expr | None = None
) -> Cell:
    inner = Visitor(v.program, v.file, v.file.index.opens[node], v.called)
    for number, generator in enumerate(node.generators):
        source = inner if number else v  # the first is evaluated outside
        inner.bind(generator.target, each(source.value(generator.iter)))
        for condition in generator.ifs:
            inner.test(condition)
    inner.lose(key, "is the key of a dict")
    cell = Cell()
    unify(part(cell, EACH), inner.value(element))
    return cell


@visits(ast.Subscript)
def _subscript(v: Visitor, node: ast.Subscript) -> Cell:
    base, index = v.value(node.value), node.slice
    if isinstance(index, ast.Constant) and isinstance(index.value, str):
        return part(base, index.value)
    if isinstance(index, ast.Constant) and type(index.value) is int:
        return _indexed(v, node, find(base), index.value)
    v.lose(index, "is an index")
    v.escape(base, node, f"is indexed in `{v.file.brief(node)}`")
    return v.untraced(node)


def _indexed(v: Visitor, node: ast.Subscript, base: Cell, index: int) -> Cell:
    """`x[0]`: an element of a tuple or list, or the first row of an array."""
    if EACH in base.parts or any(isinstance(key, int) for key in base.parts):
        return part(base, index)
    result = Cell()
    v.program.indexed.append(Indexed(v.at(node), node, base, index, result))
    return result


@visits(ast.Attribute)
def _attribute(v: Visitor, node: ast.Attribute) -> Cell:
    owner, shows_all = v.instance(node.value), _shows_attributes(v.file, node)
    for value in v.file.values(node):
        v.hand_on(value, node)
    if owner is not None:
        v.base(node)
        if shows_all:
            v.hand_on(owner, node)
        if any(isinstance(value, Known) for value in v.file.values(node)):
            return v.untraced(node)  # a method, or a property
        return v.program.attribute(owner.node, owner.file, node.attr)
    module = v.program.module_of(v.file, node.value)
    if module is not None:
        return v.program.every_binding(module, module.index.module, node.attr)
    v.program.unresolved(node.attr, v.at(node))
    base = Cell() if v.is_class(node.value) and not shows_all else v.value(node.value)
    if node.attr == "dtype":
        return v.untraced(node)
    if node.attr in _OF_ARRAYS:
        v.escape(base, node, f"`{v.file.brief(node)}` shows its shape")
        return v.untraced(node)
    return part(base, node.attr)


def _shows_attributes(file: File, node: ast.Attribute) -> bool:
    """`self.__dict__` and the like; not `self.__class__.__name__`."""
    parent = file.index.parents.get(node)
    if node.attr == "__class__" and isinstance(parent, ast.Attribute):
        return parent.attr not in _ABOUT_CLASSES
    is_special = node.attr.startswith("__") and node.attr.endswith("__")
    return is_special and node.attr not in _ABOUT_CLASSES | {"__init__"}
