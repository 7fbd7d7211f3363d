"""Imports are read from texts, and are those that Python's parser sees."""

import ast
import email
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from shardlift.source.import_graph import Imported, imported_module, read_imports
from shardlift.source.project import Project
from shardlift.source.text import Source

JOINS = "import jax\njax.distributed.initialize()\n"
STATEMENTS = [
    ("import a.b, c as d", [Imported("a.b"), Imported("c")]),
    ("from a.b import c as d, e", [Imported("a.b", "c"), Imported("a.b", "e")]),
    ("from . import a", [Imported("", "a", 1)]),
    ("from ..a.b import *", [Imported("a.b", "*", 2)]),
    ("from.a import b", [Imported("a", "b", 1)]),
    ("x = 1; import a; import b", [Imported("a"), Imported("b")]),
    ("if x: import a\nelse: import b", [Imported("a"), Imported("b")]),
    ("def f():\n    import a", [Imported("a")]),
    ("try:\n    import a\nexcept E: import b\nfinally: import c", [*map(Imported, "abc")]),
    ("match x:\n    case 1:\n        import a", [Imported("a")]),
    ("from a import (  # :)\n    b,  # c)\n    d,\n)", [Imported("a", "b"), Imported("a", "d")]),
    ("from a \\\n    import b, \\\n    c", [Imported("a", "b"), Imported("a", "c")]),
    ('"""\nimport a\nfrom b import c\n"""', []),
    ("x = 'import a'  # import b", []),
]


@pytest.mark.parametrize(("text", "imports"), STATEMENTS)
def test_statements(text: str, imports: list[Imported]) -> None:
    assert list(read_imports(text)) == imports


def _parsed(text: str) -> Iterator[Imported]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            yield from (Imported(node.module or "", a.name, node.level) for a in node.names)
        elif isinstance(node, ast.Import):
            yield from (Imported(alias.name) for alias in node.names)


def test_what_is_read_is_what_the_parser_sees() -> None:
    folders = Path(__file__).parents[2] / "src", Path(email.__file__).parents[1] / "asyncio"
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        text = path.read_text()
        assert Counter(read_imports(text)) == Counter(_parsed(text)), path


@pytest.mark.parametrize(
    ("path", "level", "module", "expected"),
    [
        ("pkg/m.py", 0, "a.b", "a.b"),
        ("pkg/m.py", 1, "", "pkg"),
        ("pkg/m.py", 1, "a", "pkg.a"),
        ("pkg/sub/m.py", 2, "a", "pkg.a"),
        ("pkg/__init__.py", 1, "a", "pkg.a"),
        ("pkg/sub/__init__.py", 2, "a", "pkg.a"),
    ],
)
def test_modules(path: str, level: int, module: str, expected: str) -> None:
    assert imported_module(path, level, module) == expected


def _project(texts: dict[str, str]) -> Project:
    return Project.of(*(Source(path, text) for path, text in texts.items()))


@pytest.mark.parametrize(
    ("train", "many"),
    [
        ("import launcher", True),
        ("def main():\n    from launcher import start", True),
        ("from pkg import start", True),  # by another module
        ('"""Run it by\n\nimport launcher\n"""', False),
        ('"""Run it by\n\nfrom pkg import start\n"""', False),
        ("import launcher_of_others", False),
    ],
)
def test_a_docstring_joins_no_job(train: str, many: bool) -> None:
    files = {"a/train.py": train, "launcher.py": JOINS, "pkg.py": "from launcher import start"}
    assert _project(files).has_many_processes("a/train.py") is many


def test_a_relative_import_is_of_its_package() -> None:
    files = {"a/m.py": "from . import job", "a/job.py": "", "b/job.py": JOINS, "job.py": JOINS}
    assert not _project(files).has_many_processes("a/m.py")
    assert _project({**files, "a/job.py": JOINS}).has_many_processes("a/m.py")
