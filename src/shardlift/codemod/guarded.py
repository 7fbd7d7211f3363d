"""Code that already asks which JAX it runs on is left alone."""

from __future__ import annotations

import ast

from shardlift.codemod.file import File

_CAUGHT = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "Exception"})
_ASKS = frozenset({"__version__", "__version_info__", "hasattr", "getattr", "version_info"})


def is_guarded(file: File, node: ast.AST) -> bool:
    """Whether a try, or a test of the version or of a name's presence, stands around the node."""
    child = node
    for parent in file.index.ancestors(node):
        if isinstance(parent, ast.Try) and child in parent.body and _catches(parent):
            return True
        if isinstance(parent, ast.ExceptHandler) and _names(parent) & _CAUGHT:
            return True
        test = parent.test if isinstance(parent, (ast.If, ast.IfExp)) else child
        if test is not child and any(_word(inner) in _ASKS for inner in ast.walk(test)):
            return True
        child = parent
    return False


def _catches(statement: ast.Try) -> bool:
    return any(not handler.type or _names(handler) & _CAUGHT for handler in statement.handlers)


def _names(handler: ast.ExceptHandler) -> set[str]:
    return {_word(node) for node in ast.walk(handler.type)} if handler.type else set()


def _word(node: ast.AST) -> str:
    return getattr(node, "attr", None) or getattr(node, "id", None) or ""
