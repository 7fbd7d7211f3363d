"""What a file does with a name that it imports."""

from __future__ import annotations

import ast
import builtins
import re

from shardlift.source.file import File
from shardlift.source.imports import bound_name
from shardlift.source.modules import module_parts
from shardlift.source.reaching import reaching_bindings


def uses_of(file: File, alias: ast.alias) -> list[ast.Name]:
    """Every use of the name that an import binds."""
    name = bound_name(alias)
    names = (node for node in file.index.nodes(ast.Name) if node.id == name)
    return [node for node in names if alias in reaching_bindings(file.index, node)]


def is_unused(file: File, alias: ast.alias) -> bool:
    """Whether nothing, in this file or another one, uses a name that is imported here."""
    name = bound_name(alias)
    if name == "*" or file.path.endswith("__init__.py") or file.source.cells is not None:
        return False  # packages import names for others to use, cells for other cells
    word = re.compile(rf"\b{re.escape(name)}\b")
    strings = (n.value for n in file.index.nodes(ast.Constant) if isinstance(n.value, str))
    if any(node.id == name for node in file.index.nodes(ast.Name)):
        return False
    if any(word.search(string) for string in strings if len(string) < 200):
        return False  # `__all__`, or an annotation
    module = re.escape((module_parts(file.path) or ("",))[-1])
    imported = rf"\b{module}\s+import[^#;]*?\b{re.escape(name)}\b|\b{module}\.{re.escape(name)}\b"
    return not file.project.is_matched_elsewhere(re.compile(imported), file.path)


def is_new_name(file: File, name: str) -> bool:
    """Whether a name means nothing yet, anywhere in a file."""
    bound = any(name in scope.names for scope in {file.index.module, *file.index.opens.values()})
    read = any(node.id == name for node in file.index.nodes(ast.Name))
    return not bound and not read and not hasattr(builtins, name)
