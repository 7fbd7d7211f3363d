"""Guards: code that already handles several JAX versions is not reported."""

from __future__ import annotations

import ast

from shardlift.source.file import File

_CAUGHT = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "Exception"})
_ASKS = frozenset({"__version__", "__version_info__", "hasattr", "getattr", "version_info"})


def is_guarded(file: File, node: ast.AST) -> bool:
    """Whether a node is inside a `try`, or a test of the version or of the presence of a name."""
    child = node
    for parent in file.index.ancestors(node):
        if isinstance(parent, ast.Try) and child in parent.body and _catches(parent):
            return True
        if isinstance(parent, ast.ExceptHandler) and _names(parent) & _CAUGHT:
            return True
        test = parent.test if isinstance(parent, (ast.If, ast.IfExp)) else child
        if test is not child and _asks(test):
            return True
        if any(_leaves(before) for before in _above(parent, child)):
            return True
        child = parent
    return False


def _above(parent: ast.AST, child: ast.AST) -> list[ast.stmt]:
    """The statements before a statement in its block."""
    body: list[ast.stmt] = getattr(parent, "body", [])
    if not isinstance(body, list) or not isinstance(child, ast.stmt) or child not in body:
        return []
    return body[: body.index(child)]


def _leaves(statement: ast.stmt) -> bool:
    """Whether a statement is `if version …: return`: the rest is for other versions."""
    if not isinstance(statement, ast.If) or not _asks(statement.test):
        return False
    return isinstance(statement.body[-1], (ast.Return, ast.Raise))


def _asks(test: ast.AST) -> bool:
    words = {_word(inner) for inner in ast.walk(test)}
    return bool(words & _ASKS) or any("version" in word.lower() for word in words)


def _catches(statement: ast.Try) -> bool:
    return any(not handler.type or _names(handler) & _CAUGHT for handler in statement.handlers)


def _names(handler: ast.ExceptHandler) -> set[str]:
    return {_word(node) for node in ast.walk(handler.type)} if handler.type else set()


def _word(node: ast.AST) -> str:
    return getattr(node, "attr", None) or getattr(node, "id", None) or ""
