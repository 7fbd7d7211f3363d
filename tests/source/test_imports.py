"""Import statements: what is left of them, and that the rest of the file is as it was."""

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardlift.rewrite.imports import drop_unused
from shardlift.source.edits import apply_edits
from shardlift.source.file import File
from shardlift.source.imports import drop_names, move_names
from tests.source.files import parse


def _first(file: File) -> ast.Import | ast.ImportFrom:
    found = [*file.index.nodes(ast.ImportFrom), *file.index.nodes(ast.Import)]
    return min(found, key=lambda node: node.lineno)


def _drop(text: str, *names: str) -> str:
    file = parse(text)
    statement = _first(file)
    aliases = [alias for alias in statement.names if alias.name in names]
    return apply_edits(text, drop_names(file, statement, aliases))


def _move(text: str, **to: str) -> str:
    file = parse(text)
    statement = _first(file)
    assert isinstance(statement, ast.ImportFrom)
    places = {a: tuple(to[a.name].rsplit(".", 1)) for a in statement.names if a.name in to}
    return apply_edits(text, move_names(file, statement, places))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("before", "names", "after"),
    [
        ("from a import b, c\n", "b", "from a import c\n"),
        ("from a import b, c, d  # why\n", "c", "from a import b, d  # why\n"),
        ("from a import (\n    b,  # of b\n    c,\n)\n", "b", "from a import (\n    c,\n)\n"),
        ("from a import (b,  # of b\n    c)\n", "c", "from a import (b,  # of b\n    )\n"),
        ("from a import (b,\n               c)\n", "c", "from a import (b)\n"),
        ("from a import b  # why\nx = 1\n", "b", "x = 1\n"),
        ("from a import b; x = 1\n", "b", "x = 1\n"),
        ("x = 1; from a import b\n", "b", "x = 1; pass\n"),
        ("if x: from a import b\n", "b", "if x: pass\n"),
        ("def f():\n    from a import b\n    g()\n", "b", "def f():\n    g()\n"),
        ("from a import (\r\n    b,\r\n    c,\r\n)\r\n", "b", "from a import (\r\n    c,\r\n)\r\n"),
        ("é = 1; from a import b, c\n", "b", "é = 1; from a import c\n"),
        ("x = 1\n# why\n# so\nfrom a import b\n\ny = 2\n", "b", "x = 1\n\ny = 2\n"),
        ("x = 1\n# why\nfrom a import b\n", "b", "x = 1\n"),
        ("x = 1\n# why\nfrom a import b\ny = 2\n", "b", "x = 1\n# why\ny = 2\n"),
        ("x = 1\n\n# both\nfrom a import b\n# y\n", "b", "x = 1\n\n# both\n# y\n"),
        ("x = 1\n# other\n\nfrom a import b\n\n", "b", "x = 1\n# other\n\n"),
        ("x = 1\n\nfrom a import b\n\n\ny = 2\n", "b", "x = 1\n\n\ny = 2\n"),
        ("x = 1\n\n\nfrom a import b\n\ny = 2\n", "b", "x = 1\n\n\ny = 2\n"),
        ("x = 1\n# fmt: off\nfrom a import b\n\n", "b", "x = 1\n# fmt: off\n\n"),
        ("# Copyright\nfrom a import b\n\nx = 1\n", "b", "# Copyright\n\nx = 1\n"),
        ('x = """\n# a"""\nfrom a import b\n\n', "b", 'x = """\n# a"""\n\n'),
        (
            "if x:\n    y = 1\n    # why\n    from a import b\nelse:\n    z = 1\n",
            "b",
            "if x:\n    y = 1\nelse:\n    z = 1\n",
        ),
    ],
)
def test_names_are_dropped(before: str, names: str, after: str) -> None:
    assert _drop(before, *names.split()) == after


@pytest.mark.parametrize(
    ("before", "to", "after"),
    [
        ("from a import b, c\n", {"b": "a.x"}, "from a import x as b, c\n"),
        ("from a import b as x\n", {"b": "a.x"}, "from a import x\n"),
        ("from a import b as k  # why\n", {"b": "z.b"}, "from z import b as k  # why\n"),
        ("from a import b, c  # why\n", {"b": "z.b"}, "from a import c  # why\nfrom z import b\n"),
        ("from a import b, c\n", {"b": "y.b", "c": "z.c"}, "from y import b\nfrom z import c\n"),
        ("from a import b, c; x = 1\n", {"b": "z.b"}, "from a import c; from z import b; x = 1\n"),
        ("if x: from a import b, c\n", {"b": "z.b"}, "if x: from a import c; from z import b\n"),
        (
            "def f():\n    from a import (\n        b,\n        c,\n    )\n",
            {"b": "z.b"},
            "def f():\n    from a import (\n        c,\n    )\n    from z import b\n",
        ),
        ("from a import b, c\r\n", {"b": "z.b"}, "from a import c\r\nfrom z import b\r\n"),
        ("from a import b, c", {"b": "z.b"}, "from a import c\nfrom z import b"),
        ("from a import b\nfrom z import b\n", {"b": "z.b"}, "from z import b\n"),  # it is there
    ],
)
def test_names_are_moved(before: str, to: dict[str, str], after: str) -> None:
    assert _move(before, **to) == after


NAMES = ("b", "c", "d", "e")


@st.composite
def statements(draw: st.DrawFn) -> tuple[str, frozenset[str]]:
    """A from-import in some layout, in some block; which of its names go."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    gone = frozenset(draw(st.lists(st.sampled_from(names), min_size=1, unique=True)))
    shown = [f"{name} as {name}_" if draw(st.booleans()) else name for name in names]
    layout = draw(st.sampled_from(("line", "brackets", "lines", "backslash")))
    margin = draw(st.sampled_from(("", "    ")))
    if layout == "lines":
        comments = [draw(st.sampled_from(("", "  # why", " # a, b"))) for _ in names]
        breaks = [draw(st.sampled_from((f"\n{margin}    ", " "))) for _ in names]
        text = ""
        for index, name in enumerate(shown):
            comment = comments[index] if index + 1 == len(shown) or "\n" in breaks[index] else ""
            follows = breaks[index] if index + 1 < len(shown) else f"\n{margin}"
            text += f"{name},{comment}{follows}"
        listed = f"({draw(st.sampled_from(('', f'{chr(10)}{margin}    ')))}{text})"
    elif layout == "brackets":
        listed = f"({', '.join(shown)}{draw(st.sampled_from(('', ',')))})"
    else:
        listed = (", " if layout == "line" else f", \\\n{margin}    ").join(shown)
    end = draw(st.sampled_from(("", "  # why", "; y = 1")))
    head = "if True:\n" if margin else ""
    above = draw(st.sampled_from(("", f"{margin}x = 'é'\n")))
    below = draw(st.sampled_from(("\n", f"\n{margin}z = 2\n")))
    return f"{head}{above}{margin}from a import {listed}{end}{below}", gone


def _imported(text: str) -> list[tuple[str, str]]:
    return [
        (f"{node.module}.{alias.name}", alias.asname or alias.name)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]


def _rest(text: str) -> list[str]:
    body = ast.walk(ast.parse(text))
    return [ast.unparse(node) for node in body if isinstance(node, ast.Assign)]


@settings(deadline=None)
@given(statements())
def test_dropping_leaves_the_others(case: tuple[str, frozenset[str]]) -> None:
    text, gone = case
    after = _drop(text, *gone)
    kept = [pair for pair in _imported(text) if pair[0].removeprefix("a.") not in gone]
    assert _imported(after) == kept, after
    assert _rest(after) == _rest(text)


@settings(deadline=None)
@given(statements(), st.sampled_from(("z", "a")))
def test_moving_keeps_what_the_file_calls_them(
    case: tuple[str, frozenset[str]], module: str
) -> None:
    text, gone = case
    after = _move(text, **{name: f"{module}.new_{name}" for name in gone})
    expected = {
        (f"{module}.new_{name[2:]}" if name[2:] in gone else name, bound)
        for name, bound in _imported(text)
    }
    assert set(_imported(after)) == expected, after
    assert len(_imported(after)) == len(expected)
    assert _rest(after) == _rest(text)


@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        ("import a, b\na.x(b)\n", "import a, b\nx(b)\n", "import b\nx(b)\n"),
        ("from a import b\nb()\n", "from a import b\nc()\n", "c()\n"),
        (
            "é = 1; from a import b, c\nb(c)\n",
            "é = 1; from a import b, c\nb()\n",
            "é = 1; from a import b\nb()\n",
        ),
        ("import a\n", "import a\nc()\n", None),  # was not used before: not ours to judge
        ("import a\na()\n__all__ = ['a']\n", "import a\n__all__ = ['a']\n", None),
        ("import a\na.x()\n", "import a\ndef f(a):\n    return a\n", None),
        (
            "try:\n    import a\nexcept E:\n    a()\n",
            "try:\n    import a\nexcept E:\n    b()\n",
            None,
        ),
    ],
)
def test_what_nothing_uses_any_more(before: str, after: str, left: str | None) -> None:
    assert drop_unused(before, after) == (after if left is None else left)
