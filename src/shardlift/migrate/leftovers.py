"""What still speaks of pmap after a migration: mocks in tests, comments, docstrings, documents.

None of it is rewritten: it is listed, for a person to look at.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

_PMAP = re.compile(r"\bpmap(?:ped|ping|s)?\b")
_PATH = re.compile(r"\w+(\.\w+)*\.pmap")


class LeftoverKind(StrEnum):
    """Where pmap is still spoken of."""

    MOCK = "mock"  # a test swaps jax.pmap, which the new code does not call
    COMMENT = "comment"
    DOCSTRING = "docstring"
    DOCUMENT = "document"  # README.md, docs/*.rst


@dataclass(frozen=True)
class Leftover:
    """One line."""

    path: str
    line: int
    kind: LeftoverKind
    text: str


def in_python(path: str, text: str) -> list[Leftover]:
    """Those of a Python file."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: nested deeply
        return []
    lines = text.splitlines()
    found = [*_mocks(tree), *_docstrings(tree, lines), *_comments(text)]
    return [
        Leftover(path, line, place, lines[line - 1].strip() if line <= len(lines) else "")
        for line, place in sorted(set(found))
    ]


def in_document(path: str, text: str) -> list[Leftover]:
    """Those of a Markdown or reStructuredText file."""
    return [
        Leftover(path, number, LeftoverKind.DOCUMENT, line.strip())
        for number, line in enumerate(text.splitlines(), start=1)
        if _PMAP.search(line)
    ]


def _mocks(tree: ast.Module) -> Iterator[tuple[int, LeftoverKind]]:
    """`mock.patch("jax.pmap")`, `monkeypatch.setattr(jax, "pmap", …)`."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or not isinstance(call.func, (ast.Attribute, ast.Name)):
            continue
        words = ast.unparse(call.func)
        if "patch" not in words and "setattr" not in words:
            continue
        for argument in call.args[:2]:
            value = argument.value if isinstance(argument, ast.Constant) else None
            if isinstance(value, str) and (value == "pmap" or _PATH.fullmatch(value)):
                yield argument.lineno, LeftoverKind.MOCK


def _docstrings(tree: ast.Module, lines: list[str]) -> Iterator[tuple[int, LeftoverKind]]:
    """Every string that is a statement of its own: docstrings, mostly."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
            continue
        if isinstance(node.value.value, str):
            for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                if number <= len(lines) and _PMAP.search(lines[number - 1]):
                    yield number, LeftoverKind.DOCSTRING


def _comments(text: str) -> Iterator[tuple[int, LeftoverKind]]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and _PMAP.search(token.string):
                yield token.start[0], LeftoverKind.COMMENT
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return
