"""Certainty: whether an expression can only have the value that the resolver gives it.

The resolver assumes the likely case: that a function runs after its module, and that a method is
not overridden. That is enough for a finding, but not for a rewrite.
"""

from __future__ import annotations

import ast
import re

from shardlift.source.file import File
from shardlift.source.reaching import all_reaching_bindings, reaching_bindings
from shardlift.source.scopes import FUNCTIONS
from shardlift.source.values import External, Instance, Known, Mapped, Output
from shardlift.source.wrappers import is_plain

_DEEPEST = 30
_MUTATORS = frozenset({"update", "pop", "popitem", "setdefault", "clear"})


def is_certain(file: File, node: ast.AST) -> bool:
    """Whether no other binding, branch or class can give an expression another value."""
    return _Question().certain(file, node)


class _Question:
    """One expression and all expressions that it depends on, each checked once."""

    def __init__(self) -> None:
        """Create a question for which no expression was checked yet."""
        self._seen: set[ast.AST] = set()
        self._waiting = 0

    def certain(self, file: File, node: ast.AST) -> bool:
        """Whether an expression is certain. Those that are being checked count as certain."""
        if node in self._seen:
            return True
        if self._waiting > _DEEPEST:
            return False
        self._seen.add(node)
        self._waiting += 1
        result = self._check(file, node)
        self._waiting -= 1
        return result

    def _check(self, file: File, node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return self._name(file, node)
        if isinstance(node, ast.Attribute):
            return self._attribute(file, node)
        if isinstance(node, ast.Call):
            return self._call(file, node)
        if isinstance(node, ast.NamedExpr):
            return self.certain(file, node.value)
        if isinstance(node, ast.Subscript):
            return _keeps_entry(file, node) and self.certain(file, node.value)
        if isinstance(node, (ast.Tuple, ast.List)):
            return all(self.certain(file, e) for e in node.elts if _matters(file, e))
        return isinstance(node, (ast.Constant, *FUNCTIONS))

    def _name(self, file: File, node: ast.Name) -> bool:
        bound = reaching_bindings(file.index, node)
        if set(bound) != set(all_reaching_bindings(file.index, node)):
            return False
        return all(self._binding(file, binding) for binding in bound)

    def _binding(self, file: File, node: ast.AST) -> bool:
        parent = file.index.parents.get(node)
        while isinstance(parent, (ast.Tuple, ast.List)):
            parent = file.index.parents.get(parent)
        if not isinstance(node, ast.Name):
            return isinstance(node, (ast.alias, ast.ClassDef, *FUNCTIONS))
        if not isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
            return False
        return parent.value is not None and self.certain(file, parent.value)

    def _attribute(self, file: File, node: ast.Attribute) -> bool:
        owner = file.only(node.value)
        if isinstance(owner, Instance):
            return _is_bound_once(owner.file, node.attr)
        known = isinstance(owner, (External, Output)) or file.name(node) is not None
        return known and self.certain(file, node.value)

    def _call(self, file: File, node: ast.Call) -> bool:
        value = file.only(node.func)
        if not self.certain(file, node.func):
            return False
        if isinstance(value, Known) and isinstance(value.node, FUNCTIONS):
            return is_plain(value) and all(self.certain(value.file, r) for r in value.returns())
        if isinstance(value, External) and value.path == "functools.partial":
            return all(self.certain(file, argument) for argument in node.args[:1])
        return True


def _is_bound_once(file: File, name: str) -> bool:
    """Whether the whole project assigns an attribute in one place only."""
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
    by_name = rf"setattr\(.*['\"]{name}['\"]"
    binding = re.compile(rf"\b(?:def|class)\s+{name}\b|\b{name}\b[^=\n(]*=(?!=)|{by_name}")
    if re.search(by_name, file.source.text):
        return False
    return not file.project.is_matched_elsewhere(binding, file.path)


def _matters(file: File, node: ast.expr) -> bool:
    return any(isinstance(value, (Mapped, Output)) for value in file.values(node))


def _keeps_entry(file: File, node: ast.Subscript) -> bool:
    """Whether an entry of a dict or list keeps its first value.

    This assumes that libraries do not change the entries of a dict that they are called with.
    """
    root: ast.expr = node
    while isinstance(root, (ast.Subscript, ast.Attribute)):
        innermost, root = root, root.value
    if not isinstance(root, ast.Name) or isinstance(file.only(root), Instance):
        return isinstance(root, ast.Call)
    uses = (use for use in file.index.uses(root) if use is not root)
    return not any(_changes_entry(file, use, _key(innermost)) for use in uses)


def _changes_entry(file: File, use: ast.Name, key: object) -> bool:
    """Whether a use of the name may change an entry."""
    parent = file.index.parents.get(use)
    outermost: ast.expr = use
    inner = _key(parent)
    while isinstance(parent, (ast.Subscript, ast.Attribute)) and parent.value is outermost:
        outermost, parent = parent, file.index.parents.get(parent)
    if isinstance(outermost, ast.Attribute) and outermost.attr in _MUTATORS:
        return True
    if isinstance(outermost, (ast.Subscript, ast.Attribute)):
        return not isinstance(outermost.ctx, ast.Load) and inner in (None, key)
    if isinstance(parent, ast.Call) and use in parent.args:
        return isinstance(file.only(parent.func), Known)
    return isinstance(parent, (ast.Assign, ast.NamedExpr)) and parent.value is use


def _key(node: ast.AST | None) -> object:
    """The key or attribute of an access, if it is a literal."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return node.slice.value
    return node.attr if isinstance(node, ast.Attribute) else None
