"""How each statement passes on the values inside of it."""

from __future__ import annotations

import ast

from shardlift.rewrite.device_axis.cells import CellRole, Point, add_made, each, unify
from shardlift.rewrite.device_axis.visitor import Visitor, visits
from shardlift.source.file import File
from shardlift.source.scopes import FUNCTIONS
from shardlift.source.values import Known


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
    if _is_shown(v.file, node):
        v.lose(node.value, "is shown by the notebook")
    else:
        v.value(node.value)


def _is_shown(file: File, node: ast.Expr) -> bool:
    """Whether an expression ends a cell of a notebook, which shows its value."""
    cells, body = file.source.cells, file.index.root.body
    if cells is None or node not in body:
        return False
    following = body[body.index(node) + 1 :][:1]
    return not following or cells.locate(following[0].lineno)[0] != cells.locate(node.lineno)[0]


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
