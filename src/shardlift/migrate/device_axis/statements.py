"""Statements in their order: which cells a name may stand for at each place."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from shardlift.migrate.device_axis.cells import (
    EACH,
    Cell,
    Escape,
    Made,
    add_made,
    each,
    escape,
    part,
    unify,
)
from shardlift.migrate.device_axis.expressions import Expressions
from shardlift.migrate.device_axis.program import Called, Program
from shardlift.migrate.device_axis.reaching import Env, anywhere_in, around_loop, joined
from shardlift.source.file import File
from shardlift.source.scopes import FUNCTIONS, Function, Scope, all_arguments
from shardlift.source.values import Known


def walk_file(program: Program, file: File) -> None:
    """Every statement of a file, and of the functions in it."""
    body = Statements(program, file, file.index.module)
    body.block(file.index.root.body)


def walk_function(program: Program, file: File, node: Function) -> None:
    """The body of a function; what calls give it comes by its parameters' cells."""
    inner = Statements(program, file, file.index.opens[node])
    inner.called = program.function(Known(node, file))
    for argument in all_arguments(node.args):
        inner.env[argument.arg] = frozenset({argument})
    for rest in (node.args.vararg, node.args.kwarg):
        if rest is not None:
            add_made(program.binding(rest), Made("elsewhere", inner.at(rest)))
    if isinstance(node, ast.Lambda):
        unify(inner.called.result, inner.value(node.body))
    else:
        inner.block(node.body)


class Statements(Expressions):
    """The statements of a module or of a function."""

    def __init__(self, program: Program, file: File, scope: Scope) -> None:
        """Names are unbound at first."""
        super().__init__(program, file, scope)
        self.called: Called | None = None  # the function whose body it is
        self.dead = False  # after a return, a raise, a break
        self.outer: Expressions | None = None  # of a comprehension: where it stands

    def lookup(self, node: ast.Name) -> Cell:
        """A comprehension sees the names around it as they are where it stands."""
        if self.outer is not None and node.id not in self.scope.names:
            return self.outer.lookup(node)
        return super().lookup(node)

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Statements one after the other."""
        for statement in body:
            method = getattr(self, f"_{type(statement).__name__.lower()}", None)
            if method is not None:
                method(statement)
            else:
                self._children(statement)

    # ---- binding

    def bind(self, target: ast.expr, cell: Cell) -> None:
        """Give a value to a target."""
        if isinstance(target, ast.Name):
            binding = self.program.binding(target)
            unify(binding, cell)
            self.env[target.id] = frozenset({target})
        elif isinstance(target, (ast.Tuple, ast.List)):
            if any(isinstance(one, ast.Starred) for one in target.elts):
                escape(cell, Escape(self.at(target), "is unpacked with a star"))
            for number, one in enumerate(target.elts):
                inner = one.value if isinstance(one, ast.Starred) else one
                self.bind(inner, part(cell, number))
        elif isinstance(target, ast.Attribute):
            owner = self.instance(target.value)
            module = self.program.module_of(self.file, target.value)
            for value in self.file.values(target.value):
                if isinstance(value, Known) and isinstance(value.node, ast.ClassDef):
                    self.program.leak(value.node, value.file, self.at(target))
            if owner is not None:
                unify(self.program.attribute(owner.node, owner.file, target.attr), cell)
            elif module is not None:
                unify(self.program.every_binding(module, module.index.module, target.attr), cell)
                escape(cell, Escape(self.at(target), f"is put into `{self.file.brief(target)}`"))
            else:
                self.lose(target.value, f"`{self.file.brief(target)}` is set")
                escape(cell, Escape(self.at(target), f"is put into `{self.file.brief(target)}`"))
        elif isinstance(target, ast.Subscript):
            self._item(target, cell)

    def _item(self, target: ast.Subscript, cell: Cell) -> None:
        """`tree["key"] = value`: a dict keeps one layout for all that it holds."""
        base = self.value(target.value)
        if isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str):
            unify(part(base, target.slice.value), cell)
            return
        self.lose(target.slice, "is an index")
        said = Escape(self.at(target), f"is put into `{self.file.brief(target)}`")
        escape(base, said)
        escape(cell, said)

    # ---- statements

    def _assign(self, node: ast.Assign) -> None:
        cell = self.value(node.value)
        for target in node.targets:
            self.bind(target, cell)

    def _annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.value(node.value))

    def _augassign(self, node: ast.AugAssign) -> None:
        why = f"is used in `{self.file.brief(node)}`"
        self.lose(node.value, why)
        if isinstance(node.target, ast.Name):
            old = self.lookup(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
            escape(old, Escape(self.at(node), why))
        elif isinstance(node.target, (ast.Attribute, ast.Subscript)):
            old = self.value(node.target)
            escape(old, Escape(self.at(node), why))
        self.bind(node.target, self.plain(node))

    def _expr(self, node: ast.Expr) -> None:
        if self.file.source.cells is not None:
            self.lose(node.value, "is shown by the notebook")
        else:
            self.value(node.value)

    def _return(self, node: ast.Return) -> None:
        if node.value is not None:
            cell = self.value(node.value)
            if self.called is not None:
                unify(self.called.result, cell)
        self.dead = True

    def _yield(self, node: ast.Yield) -> Cell:
        if node.value is not None:
            cell = self.value(node.value)
            if self.called is not None:
                unify(part(self.called.result, EACH), cell)
        return self.plain(node)

    def _yieldfrom(self, node: ast.YieldFrom) -> Cell:
        cell = self.value(node.value)
        if self.called is not None:
            unify(part(self.called.result, EACH), each(cell))
        return self.plain(node)

    def _raise(self, node: ast.Raise) -> None:
        self._children(node)
        self.dead = True

    def _break(self, _: ast.Break) -> None:
        self.dead = True

    _continue = _break

    def _pass(self, _: ast.Pass) -> None:
        """Nothing happens, or nothing that a value is part of."""

    _global = _nonlocal = _import = _importfrom = _pass

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.env.pop(target.id, None)
            else:
                self._children(target)

    def _assert(self, node: ast.Assert) -> None:
        self.test(node.test)
        if node.msg is not None:
            self.value(node.msg)

    def _functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        binding = self.program.binding(node)
        for decorator in node.decorator_list:
            if decorator in self.program.sites:
                site = self.program.sites[decorator]
                add_made(binding, Made("mapped", self.at(decorator), None, site))
                self.program.mapped.append((site, binding))
                self.program.hand_on(Known(node, self.file), self.at(decorator))
            else:
                self.lose(decorator, "is a decorator")
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.lose(default, "is the default of a parameter")
        for argument, default in _defaults(node):
            if not isinstance(default, ast.Constant):
                add_made(self.program.binding(argument), Made("elsewhere", self.at(default)))
        self.env[node.name] = frozenset({node})
        walk_function(self.program, self.file, node)

    _asyncfunctiondef = _functiondef

    def _classdef(self, node: ast.ClassDef) -> None:
        self.env[node.name] = frozenset({node})
        inner = Statements(self.program, self.file, self.file.index.opens[node])
        for child in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
            self._children(child)
        inner.block(node.body)
        for name, bound in inner.scope.names.items():
            for one in bound:
                if not isinstance(one, FUNCTIONS):
                    said = Escape(self.at(one), f"is the attribute {name} of a class")
                    escape(self.program.bound(self.file, one), said)
                    self._is_set(node, name, one)

    def _is_set(self, owner: ast.ClassDef, name: str, bound: ast.AST) -> None:
        """An attribute that the body of a class gives to all its objects."""
        statement = self.file.index.parents.get(bound)
        value = getattr(statement, "value", None)
        if value is not None and not isinstance(value, ast.Constant):
            cell = self.program.attribute(owner, self.file, name)
            add_made(cell, Made("elsewhere", self.at(bound)))

    # ---- branches and loops

    def _if(self, node: ast.If) -> None:
        self.test(node.test)
        self._branches(self.env, [node.body, node.orelse])

    def _branches(self, before: Env, bodies: Sequence[Sequence[ast.stmt]]) -> None:
        dead, ends = self.dead, []
        for body in bodies:
            self.env, self.dead = dict(before), False
            self.block(body)
            if not self.dead:
                ends.append(self.env)
        self.env = joined(ends) if ends else dict(before)
        self.dead = dead or not ends

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        source = each(self.value(node.iter))
        self._loop(node, lambda: self.bind(node.target, source))

    _asyncfor = _for

    def _while(self, node: ast.While) -> None:
        self._loop(node, lambda: self.test(node.test))

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, enter: Callable[[], None]) -> None:
        head, after = around_loop(self.file, self.scope, node, self.env)
        self.env = dict(head)
        enter()
        self.block(node.body)
        self.env, self.dead = dict(head), False
        self.block(node.orelse)
        self.env, self.dead = dict(after), False

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.lose(item.context_expr, "is the context of a with")
            if item.optional_vars is not None:
                self.bind(item.optional_vars, self.plain(item.context_expr))
        self.block(node.body)

    _asyncwith = _with

    def _try(self, node: ast.Try) -> None:
        before, dead = self.env, self.dead
        self.env = dict(before)
        self.block([*node.body, *node.orelse])
        ends = [] if self.dead else [self.env]
        thrown = anywhere_in(self.file, self.scope, node.body, before)
        for handler in node.handlers:
            self.env, self.dead = dict(thrown), False
            if handler.name:
                self.env[handler.name] = frozenset({handler})
            self.block(handler.body)
            if not self.dead:
                ends.append(self.env)
        if node.finalbody:
            self.env, self.dead = dict(anywhere_in(self.file, self.scope, [node], before)), False
            self.block(node.finalbody)
            self.dead = dead or not ends
            return
        self.env = joined(ends) if ends else dict(before)
        self.dead = dead or not ends

    _trystar = _try

    def _match(self, node: ast.Match) -> None:
        self.lose(node.subject, "is matched")
        before = anywhere_in(self.file, self.scope, [node], self.env)
        self._branches(before, [case.body for case in node.cases] + [[]])


def _defaults(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[ast.arg, ast.expr]]:
    positional = [*node.args.posonlyargs, *node.args.args]
    pairs = list(zip(reversed(positional), reversed(node.args.defaults), strict=False))
    named = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    return pairs + [(argument, default) for argument, default in named if default is not None]
