"""The program as a flow of values: one visitor, with one function per type of node.

The functions are in `visit_nodes` and `visit_calls`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import singledispatch

from shardlift.rewrite.device_axis.cells import Cell, CellRole, Escape, NodePlace, Point
from shardlift.rewrite.device_axis.followed_program import Called, FollowedProgram
from shardlift.source.file import File
from shardlift.source.reaching import after_definition, within_scope
from shardlift.source.scopes import has_star
from shardlift.source.values import Instance


@singledispatch
def visit(node: ast.AST, v: Visitor) -> Cell | None:
    """The cell of a node. Notes what the node does to the values inside of it."""
    v.lose_children(node)
    return v.untraced(node)


class Visitor:
    """Visits the statements and expressions of a module or a function."""

    def __init__(self, program: FollowedProgram, file: File, called: Called | None = None) -> None:
        """`called` is the function that is visited; None for a module."""
        self.program, self.file, self.called = program, file, called

    def value(self, node: ast.AST) -> Cell:
        """The cell of a node."""
        return visit(node, self) or Cell()

    def block(self, nodes: Iterable[ast.AST]) -> None:
        """Visit statements, or other nodes, one after the other."""
        for node in nodes:
            self.value(node)

    def at(self, node: ast.AST) -> NodePlace:
        """A node of this file."""
        return NodePlace(self.file, node)

    def untraced(self, node: ast.AST) -> Cell:
        """The cell of a value whose origin is not followed."""
        return Cell().add_made(Point(CellRole.ELSEWHERE, self.at(node)))

    def escape(self, cell: Cell, node: ast.AST, why: str) -> None:
        """Note that a value is used where it is not followed, at a node."""
        cell.escape(Escape(self.at(node), why))

    def lose(self, node: ast.AST | None, why: str) -> None:
        """Visit an expression whose value is used where it is not followed."""
        if isinstance(node, ast.expr):
            self.escape(self.value(node), node, why)

    def lose_children(self, node: ast.AST) -> None:
        """Visit the parts of a node whose value is not followed."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.lose(child, f"is used in `{self.file.brief(node)}`")
            elif not isinstance(child, (ast.expr_context, ast.operator, ast.cmpop)):
                self.lose_children(child)

    # ---- names

    def lookup(self, node: ast.Name) -> Cell:
        """The cell of a name: of the bindings that reach it, if their order is known."""
        index = self.file.index
        scope, is_outer = index.binding_scope(node)
        if scope is None:  # a builtin, or what `import *` gives
            return self.untraced(node)
        bound = scope.names[node.id]
        if is_outer:
            around = (n for n in index.ancestors(node) if index.scope_of.get(n) is scope)
            bound = after_definition(index, scope, next(around, scope.node), node.id)
        elif not scope.is_comprehension:
            bound = within_scope(index, scope, node)
        if (self.file, node.id) in self.program.declared:  # a function may bind it at any time
            bound = scope.names[node.id]
        return self.program.any_of(self.file, scope, node.id, bound)

    def hand_on(self, node: ast.AST) -> None:
        """The functions, classes and objects that a node may be are used as values."""
        for value in self.file.values(node):
            self.program.hand_on(value, self.at(node))

    def instance(self, node: ast.expr) -> Instance | None:
        """The object of a class of the program that an expression is, if it can only be that."""
        value = self.file.only(node)
        return value if isinstance(value, Instance) else None

    def base(self, node: ast.expr) -> None:
        """Visit what a known function, object or attribute is had from, unless it is a name."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if not isinstance(node, ast.Name):
            self.value(node)

    # ---- binding

    def bind(self, target: ast.expr, cell: Cell) -> None:
        """Give a value to a target."""
        if isinstance(target, ast.Name):
            self.program.give(target, cell)
        elif isinstance(target, (ast.Tuple, ast.List)):
            if has_star(target.elts):
                self.escape(cell, target, "is unpacked with a star")
            for number, element in enumerate(target.elts):
                inner = element.value if isinstance(element, ast.Starred) else element
                self.bind(inner, cell.part(number))
        elif isinstance(target, ast.Attribute):
            self._set_attribute(target, cell)
        elif isinstance(target, ast.Subscript):
            self._set_item(target, cell)

    def _set_attribute(self, target: ast.Attribute, cell: Cell) -> None:
        owner = self.instance(target.value)
        module = self.program.module_of(self.file, target.value)
        if owner is not None:
            self.base(target)
            self.program.attribute(owner.node, target.attr, self.at(target))
            self.program.give((owner.node, target.attr), cell)
            return
        if module is not None:
            self.program.every_binding(module, module.index.module, target.attr).unify(cell)
        else:
            self.lose(target.value, f"`{self.file.brief(target)}` is set")
        self.escape(cell, target, f"is put into `{self.file.brief(target)}`")

    def _set_item(self, target: ast.Subscript, cell: Cell) -> None:
        """`tree["key"] = value`: a dict has one layout for all that it holds."""
        base = self.value(target.value)
        if isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str):
            base.part(target.slice.value).unify(cell)
            return
        self.lose(target.slice, "is an index")
        for value in (base, cell):
            self.escape(value, target, f"is put into `{self.file.brief(target)}`")
