"""Whether what an expression was found to stand for is all that it can stand for.

The resolver takes the likely reading: that a function runs after its module, that a method is not
overridden. That is enough for a finding. A rewrite needs the readings to be the same.
"""

from __future__ import annotations

import ast
import re

from shardlift.codemod.file import File
from shardlift.codemod.reaching import every_reaching, reaching
from shardlift.codemod.resolve import returns
from shardlift.codemod.scopes import FUNCTIONS
from shardlift.codemod.values import External, Instance, Known, Output
from shardlift.codemod.wrappers import is_plain

_DEEPEST = 12
_CHANGES = frozenset({"update", "pop", "popitem", "setdefault", "clear"})


def is_certain(file: File, node: ast.AST, depth: int = _DEEPEST) -> bool:
    """Whether no other binding, branch or class can give an expression another meaning."""
    if not depth:
        return False
    if isinstance(node, ast.Name):
        return _is_certain_name(file, node, depth - 1)
    if isinstance(node, ast.Attribute):
        return _is_certain_attribute(file, node, depth - 1)
    if isinstance(node, ast.Call):
        return _is_certain_call(file, node, depth - 1)
    if isinstance(node, ast.NamedExpr):
        return is_certain(file, node.value, depth - 1)
    if isinstance(node, ast.Subscript):
        return _keeps_entry(file, node) and is_certain(file, node.value, depth - 1)
    if isinstance(node, (ast.Tuple, ast.List)):
        outputs = [one for one in node.elts if _may_be_output(file, one)]
        return all(is_certain(file, one, depth - 1) for one in outputs)
    return isinstance(node, (ast.Constant, *FUNCTIONS))


def _is_certain_name(file: File, node: ast.Name, depth: int) -> bool:
    bound = reaching(file.index, node)
    if set(bound) != set(every_reaching(file.index, node)):
        return False
    return all(_is_certain_binding(file, binding, depth) for binding in bound)


def _is_certain_binding(file: File, node: ast.AST, depth: int) -> bool:
    parent = file.index.parents.get(node)
    while isinstance(parent, (ast.Tuple, ast.List)):
        parent = file.index.parents.get(parent)
    if isinstance(node, ast.Name):
        assigned = isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr))
        value = parent.value if assigned else None  # type: ignore[union-attr]
        return value is not None and is_certain(file, value, depth)
    return isinstance(node, (ast.alias, ast.ClassDef, *FUNCTIONS))


def _is_certain_attribute(file: File, node: ast.Attribute, depth: int) -> bool:
    owner = file.only(node.value)
    if isinstance(owner, Instance):
        return _is_bound_once(owner.file, node.attr)
    known = isinstance(owner, (External, Output)) or file.name(node) is not None
    return known and is_certain(file, node.value, depth)


def _is_bound_once(file: File, name: str) -> bool:
    """Whether an attribute is given a value in one place of the program only."""
    stores = [
        node
        for node in file.index.nodes(ast.Attribute)
        if node.attr == name and not isinstance(node.ctx, ast.Load)
    ]
    members = [
        bound
        for owner in file.index.nodes(ast.ClassDef)
        for bound in file.index.opens[owner].names.get(name, ())
    ]
    if len(stores) + len(members) != 1:
        return False
    binding = re.compile(rf"\b(?:def|class)\s+{name}\b|\b{name}\b[^=\n(]*=(?!=)|setattr\(")
    return not file.project.is_matched_elsewhere(binding, file.path)


def _is_certain_call(file: File, node: ast.Call, depth: int) -> bool:
    value = file.only(node.func)
    if not is_certain(file, node.func, depth):
        return False
    if (
        isinstance(value, Known)
        and isinstance(value.node, FUNCTIONS)
        and _may_be_output(file, node)
    ):
        return is_plain(value) and all(is_certain(value.file, r, depth) for r in returns(value))
    if isinstance(value, External) and value.path == "functools.partial":
        return all(is_certain(file, argument, depth) for argument in node.args[:1])
    return True


def _may_be_output(file: File, node: ast.expr) -> bool:
    return any(isinstance(value, Output) for value in file.values(node))


def _keeps_entry(file: File, node: ast.Subscript) -> bool:
    """Whether an entry of a dict or list is the one that it was made with.

    A library is taken not to exchange the entries of a dict that it is given.
    """
    root: ast.expr = node
    while isinstance(root, (ast.Subscript, ast.Attribute)):
        innermost, root = root, root.value
    if not isinstance(root, ast.Name) or isinstance(file.only(root), Instance):
        return isinstance(root, ast.Call)
    uses = (use for use in file.index.uses(root) if use is not root)
    return not any(_changes_entry(file, use, _key(innermost)) for use in uses)


def _changes_entry(file: File, use: ast.Name, key: object) -> bool:
    """Whether a use of the name may put something else in the place of an entry."""
    parent = file.index.parents.get(use)
    outermost: ast.expr = use
    inner = _key(parent)
    while isinstance(parent, (ast.Subscript, ast.Attribute)) and parent.value is outermost:
        outermost, parent = parent, file.index.parents.get(parent)
    if isinstance(outermost, ast.Attribute) and outermost.attr in _CHANGES:
        return True
    if isinstance(outermost, (ast.Subscript, ast.Attribute)):
        return not isinstance(outermost.ctx, ast.Load) and inner in (None, key)
    if isinstance(parent, ast.Call) and use in parent.args:
        return isinstance(file.only(parent.func), Known)
    return isinstance(parent, (ast.Assign, ast.NamedExpr)) and parent.value is use


def _key(node: ast.AST | None) -> object:
    """The key or attribute by which an entry is taken, if it is written out."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return node.slice.value
    return node.attr if isinstance(node, ast.Attribute) else None
