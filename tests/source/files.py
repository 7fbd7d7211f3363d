"""Files for tests: texts in memory, and the expressions in them."""

import ast
from collections.abc import Callable

import pytest

from shardlift.source.file import File
from shardlift.source.project import Project
from shardlift.source.text import Source


def parse(text: str, **others: str) -> File:
    """The file `m.py` of a project with other modules, such as `util="…"`."""
    sources = [Source(f"{name}.py", other) for name, other in others.items()]
    return Project.of(Source("m.py", text), *sources).file("m.py")


def last_value(file: File) -> ast.expr:
    """The value of the last statement."""
    statement = file.index.root.body[-1]
    assert isinstance(statement, (ast.Assign, ast.Expr)), ast.dump(statement)
    return statement.value


def table(cases: dict[Callable[..., object], dict[str, object]]) -> pytest.MarkDecorator:
    """Parametrizes a test with a function, a text, and what the function says of it."""
    rows = [(f, text, expected) for f, texts in cases.items() for text, expected in texts.items()]
    ids = [f"{f.__name__}-{text}" for f, text, _ in rows]
    return pytest.mark.parametrize(("function", "text", "expected"), rows, ids=ids)


def shown(value: object) -> object:
    """The text of a node; other values as they are."""
    return ast.unparse(value) if isinstance(value, ast.AST) else value
