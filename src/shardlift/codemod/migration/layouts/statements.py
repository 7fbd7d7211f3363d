"""Statements in their order: which cells a name may stand for at each place."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from shardlift.codemod.file import File
from shardlift.codemod.migration.layouts.cells import (
    EACH,
    Cell,
    Escape,
    Made,
    add_made,
    collapse,
    escape,
    part,
    unify,
)
from shardlift.codemod.migration.layouts.expressions import Expressions
from shardlift.codemod.migration.layouts.program import Program
from shardlift.codemod.scopes import FUNCTIONS, LOOPS, Function, Scope, all_arguments
from shardlift.codemod.values import Known

_Env = dict[str, frozenset[Cell]]


def walk_file(program: Program, file: File) -> None:
    """Every statement of a file, and of the functions in it."""
    body = Statements(program, file, file.index.module)
    body.block(file.index.root.body)
    if "__main__" not in file.source.text and file.source.cells is not None:
        body.shows = True


def walk_function(program: Program, file: File, node: Function) -> None:
    """The body of a function; what calls give it comes by its parameters' cells."""
    inner = Statements(program, file, file.index.opens[node])
    inner.called = program.function(Known(node, file))
    for argument in all_arguments(node.args):
        inner.env[argument.arg] = frozenset({program.binding(argument)})
    for argument in (node.args.vararg, node.args.kwarg):
        if argument is not None:
            add_made(program.binding(argument), Made("elsewhere", inner.at(argument)))
    if isinstance(node, ast.Lambda):
        unify(inner.called.result, inner.value(node.body))
    else:
        inner.block(node.body)


class Statements(Expressions):
    """The statements of a module or of a function."""

    def __init__(self, program: Program, file: File, scope: Scope) -> None:
        """Names are unbound at first."""
        super().__init__(program, file, scope)
        self.called = None  # the function whose body it is
        self.dead = False  # after a return, a raise, a break
        self.outer: Expressions | None = None  # of a comprehension: where it stands
        self.shows = False

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
            self.env[target.id] = frozenset({binding})
        elif isinstance(target, (ast.Tuple, ast.List)):
            if any(isinstance(one, ast.Starred) for one in target.elts):
                escape(cell, Escape(self.at(target), "is unpacked with a star"))
            for number, one in enumerate(target.elts):
                inner = one.value if isinstance(one, ast.Starred) else one
                self.bind(inner, part(cell, number))
        elif isinstance(target, ast.Attribute):
            owner = self.instance(target.value)
            if owner is not None:
                unify(self.program.attribute(owner.node, owner.file, target.attr), cell)
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
            unify(part(self.called.result, EACH), part(cell, EACH))
        return self.plain(node)

    def _raise(self, node: ast.Raise) -> None:
        self._children(node)
        self.dead = True

    def _break(self, node: ast.Break) -> None:
        self.dead = True

    _continue = _break

    def _pass(self, node: ast.Pass) -> None:
        pass

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
        self.env[node.name] = frozenset({binding})
        walk_function(self.program, self.file, node)

    _asyncfunctiondef = _functiondef

    def _classdef(self, node: ast.ClassDef) -> None:
        self.env[node.name] = frozenset({self.program.binding(node)})
        inner = Statements(self.program, self.file, self.file.index.opens[node])
        for child in (*node.decorator_list, *node.bases, *(k.value for k in node.keywords)):
            self._children(child)
        inner.block(node.body)
        for name, bound in inner.scope.names.items():
            for one in bound:
                if not isinstance(one, FUNCTIONS):
                    said = Escape(self.at(one), f"is the attribute {name} of a class")
                    escape(self.program.bound(self.file, one), said)

    # ---- branches and loops

    def _if(self, node: ast.If) -> None:
        self.test(node.test)
        before = dict(self.env)
        self._branches(before, [node.body, node.orelse])

    def _branches(self, before: _Env, bodies: Sequence[Sequence[ast.stmt]]) -> None:
        dead, ends = self.dead, []
        for body in bodies:
            self.env, self.dead = dict(before), False
            self.block(body)
            if not self.dead:
                ends.append(self.env)
        self.env = _joined(ends) if ends else dict(before)
        self.dead = dead or not ends

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        source = part(self.value(node.iter), EACH)
        self._loop(node, lambda: self.bind(node.target, source))

    _asyncfor = _for

    def _while(self, node: ast.While) -> None:
        self._loop(node, lambda: self.test(node.test))

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, enter: object) -> None:
        """At its head a name may stand for what it was before, or for what any turn gave it."""
        before = dict(self.env)
        around = self._with_all(before, node)
        self.env = dict(around)
        assert callable(enter)
        enter()
        self.block(node.body)
        self.env, self.dead = dict(around), False
        self.block(node.orelse)

    def _with_all(self, env: _Env, node: ast.AST) -> _Env:
        """What names may stand for if any of the statements of a node have run."""
        found = dict(env)
        for name in ast.walk(node):
            if isinstance(name, ast.Name) and not isinstance(name.ctx, ast.Load):
                if self.file.index.scope_of.get(name) is self.scope:
                    cells = found.get(name.id, frozenset())
                    found[name.id] = cells | {self.program.binding(name)}
            elif isinstance(name, (ast.FunctionDef, ast.ClassDef)) and name is not node:
                if self.file.index.scope_of.get(name) is self.scope:
                    cells = found.get(name.name, frozenset())
                    found[name.name] = cells | {self.program.binding(name)}
        return found

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.lose(item.context_expr, "is the context of a with")
            if item.optional_vars is not None:
                self.bind(item.optional_vars, self.plain(item.context_expr))
        self.block(node.body)

    _asyncwith = _with

    def _try(self, node: ast.Try) -> None:
        before = dict(self.env)
        dead = self.dead
        self.block(node.body)
        self.block(node.orelse)
        ends = [] if self.dead else [self.env]
        anywhere = dict(before)
        for statement in node.body:
            anywhere = self._with_all(anywhere, statement)
        for handler in node.handlers:
            self.env, self.dead = dict(anywhere), False
            if handler.name:
                binding = self.program.binding(handler)
                self.env[handler.name] = frozenset({binding})
            self.block(handler.body)
            if not self.dead:
                ends.append(self.env)
        if node.finalbody:
            final = dict(before)
            for part_of in (node.body, node.orelse, *(h.body for h in node.handlers)):
                for statement in part_of:
                    final = self._with_all(final, statement)
            self.env, self.dead = final, False
            self.block(node.finalbody)
            return
        self.env = _joined(ends) if ends else dict(before)
        self.dead = dead or not ends

    _trystar = _try

    def _match(self, node: ast.Match) -> None:
        self.lose(node.subject, "is matched")
        before = self._with_all(dict(self.env), node)
        self._branches(before, [case.body for case in node.cases] + [[]])


def _joined(envs: Sequence[_Env]) -> _Env:
    found: _Env = {}
    for env in envs:
        for name, cells in env.items():
            found[name] = found.get(name, frozenset()) | cells
    return found


def _defaults(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[ast.arg, ast.expr]]:
    positional = [*node.args.posonlyargs, *node.args.args]
    pairs = list(zip(reversed(positional), reversed(node.args.defaults), strict=False))
    named = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    return pairs + [(argument, default) for argument, default in named if default is not None]


__all__ = ["LOOPS", "Statements", "collapse", "walk_file", "walk_function"]
