"""How each expression and statement passes on the values inside of it."""

from __future__ import annotations

import ast

from shardlift.rewrite.device_axis.cells import (
    EACH,
    Cell,
    CellRole,
    Point,
    add_made,
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
from shardlift.source.scopes import FUNCTIONS
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


# ---- statements


@visits(ast.Assign, ast.AnnAssign)
def _assign(v: Visitor, node: ast.Assign | ast.AnnAssign) -> None:
    if node.value is not None:
        cell = v.value(node.value)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            v.bind(target, cell)


@visits(ast.AugAssign)
def _augmented_assign(v: Visitor, node: ast.AugAssign) -> None:
    why = f"is used in `{v.file.brief(node)}`"
    v.lose(node.value, why)
    target = node.target
    old = v.lookup(target) if isinstance(target, ast.Name) else v.value(target)
    v.escape(old, node, why)
    v.bind(target, v.untraced(node))


@visits(ast.Expr)
def _expression(v: Visitor, node: ast.Expr) -> None:
    v.value(node.value)


@visits(ast.Return)
def _return(v: Visitor, node: ast.Return) -> None:
    if node.value is not None:
        cell = v.value(node.value)
        if v.called is not None:
            unify(v.called.result, cell)


@visits(ast.Delete)
def _delete(v: Visitor, node: ast.Delete) -> None:
    for target in node.targets:
        if not isinstance(target, ast.Name):
            v.lose_children(target)


@visits(ast.Assert)
def _assert(v: Visitor, node: ast.Assert) -> None:
    v.test(node.test)
    if node.msg is not None:
        v.value(node.msg)


@visits(ast.FunctionDef, ast.AsyncFunctionDef)
def _function(v: Visitor, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    binding = v.program.binding(node)
    for decorator in node.decorator_list:
        if decorator in v.program.sites:
            site = v.program.sites[decorator]
            add_made(binding, Point(CellRole.MAPPED, v.at(decorator), site=site))
            v.program.mapped.append((site, binding))
            v.program.hand_on(Known(node, v.file), v.at(decorator))
        else:
            v.lose(decorator, "is a decorator")
    v.parameters(node.args)
    for argument, default in _defaults(node):
        if not isinstance(default, ast.Constant) and not _is_empty(default):
            add_made(v.program.binding(argument), Point(CellRole.ELSEWHERE, v.at(default)))
    v.function(node)


def _is_empty(node: ast.expr) -> bool:
    """Whether an expression is a display of nothing: it has no arrays."""
    return ast.unparse(node) in ("()", "[]", "{}")


def _defaults(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[ast.arg, ast.expr]]:
    positional = [*node.args.posonlyargs, *node.args.args]
    pairs = list(zip(reversed(positional), reversed(node.args.defaults), strict=False))
    named = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    return pairs + [(argument, default) for argument, default in named if default is not None]


@visits(ast.ClassDef)
def _class(v: Visitor, node: ast.ClassDef) -> None:
    for child in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
        v.lose_children(child)
    inner = Visitor(v.program, v.file, v.file.index.opens[node])
    inner.block(node.body)
    for name, bound in inner.scope.names.items():
        for binding in bound:
            if not isinstance(binding, FUNCTIONS):
                cell = v.program.bound(v.file, binding)
                v.escape(cell, binding, f"is the attribute {name} of a class")
                _set_for_all(v, node, name, binding)


def _set_for_all(v: Visitor, owner: ast.ClassDef, name: str, bound: ast.AST) -> None:
    """An attribute that the body of a class gives to all its objects."""
    value = getattr(v.file.index.parents.get(bound), "value", None)
    if value is not None and not isinstance(value, ast.Constant):
        cell = v.program.attribute(owner, v.file, name)
        add_made(cell, Point(CellRole.ELSEWHERE, v.at(bound)))


@visits(ast.If, ast.While)
def _if(v: Visitor, node: ast.If | ast.While) -> None:
    v.test(node.test)
    v.block(node.body)
    v.block(node.orelse)


@visits(ast.For, ast.AsyncFor)
def _for(v: Visitor, node: ast.For | ast.AsyncFor) -> None:
    v.bind(node.target, each(v.value(node.iter)))
    v.block(node.body)
    v.block(node.orelse)


@visits(ast.With, ast.AsyncWith)
def _with(v: Visitor, node: ast.With | ast.AsyncWith) -> None:
    for item in node.items:
        v.lose(item.context_expr, "is the context of a with")
        if item.optional_vars is not None:
            v.bind(item.optional_vars, v.untraced(item.context_expr))
    v.block(node.body)


@visits(ast.Try, ast.TryStar)
def _try(v: Visitor, node: ast.Try | ast.TryStar) -> None:
    for handler in node.handlers:
        v.lose(handler.type, "is an exception")
    for body in (node.body, node.orelse, *(one.body for one in node.handlers), node.finalbody):
        v.block(body)


@visits(ast.Match)
def _match(v: Visitor, node: ast.Match) -> None:
    v.lose(node.subject, "is matched")
    for case in node.cases:
        if case.guard is not None:
            v.test(case.guard)
        v.block(case.body)
