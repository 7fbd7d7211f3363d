"""Imports are read on the tree, and files are parsed only if the answer depends on them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from shardlift.source.import_graph import (
    Imported,
    ImportGraph,
    _possible_imports,
    imported_module,
    read_imports,
)
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
    (
        "try:\n    import a\nexcept E: import b\nfinally: import c",
        [*map(Imported, "abc")],
    ),
    ("match x:\n    case 1:\n        import a", [Imported("a")]),
    ("from a import (  # :)\n    b,  # c)\n    d,\n)", [Imported("a", "b"), Imported("a", "d")]),
    ("from a \\\n    import b, \\\n    c", [Imported("a", "b"), Imported("a", "c")]),
    ('"""\nimport a\nfrom b import c\n"""', []),
    ("x = 'import a'  # import b", []),
]


@pytest.mark.parametrize(("text", "imports"), STATEMENTS)
def test_statements(text: str, imports: list[Imported]) -> None:
    assert list(read_imports(ast.parse(text))) == imports
    assert {one for one in imports if one.name != "*"} <= {*_possible_imports(text)}


def test_the_texts_show_all_that_files_import() -> None:
    for path in Path(__file__).parents[2].glob("src/**/*.py"):
        text = path.read_text()
        real = {one for one in read_imports(ast.parse(text)) if one.name != "*"}
        assert real <= {*_possible_imports(text)}, path


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


def test_only_the_files_on_the_way_are_parsed() -> None:
    texts = {
        "top.py": "import a, b",
        "a.py": "",
        "b.py": "",
        "c.py": "import a",
        "d.py": "import d",
    }
    parsed: list[str] = []

    def tree(path: str) -> ast.Module:
        parsed.append(path)
        return ast.parse(texts[path])

    graph = ImportGraph(texts, texts.__getitem__, tree)
    assert graph.is_same_program("a.py", "b.py")
    assert not graph.is_same_program("c.py", "b.py")
    assert parsed == ["top.py"]
