"""Files: text and spans of nodes, and definitions of names."""

from collections.abc import Callable

import pytest

from shardlift.source.file import File
from shardlift.source.model import Span
from tests.source.files import last_value, parse, shown, table

CASES: dict[Callable[..., object], dict[str, object]] = {
    File.definition: {
        "x = 1\nx": "1",
        "x: int = 1\nx": "1",
        "(x := 1)\ny = x\ny": "1",
        "x = y = 1\nx": "1",
        "x: int\nx": "x",
        "x, y = 1, 2\nx": "x",
        "x += 1\nx": "x",
        "if a:\n    x = 1\nelse:\n    x = 2\nx": "x",
        "def f(x):\n    return x\nf": "f",
        "f(1)": "f(1)",
        "a = 1\nb = a\nc = b\nd = c\ne = d\nf = e\nf": "a",
    },
    File.text: {"f(x)": "f(x)", "é = f('é',\n  x)": "f('é',\n  x)"},
}


@table(CASES)
def test_expressions(function: Callable[..., object], text: str, expected: object) -> None:
    file = parse(text)
    assert shown(function(file, last_value(file))) == expected


def test_brief_text() -> None:
    file = parse("f(a,\n  b)")
    assert file.text(file.index.root) == ""
    assert file.brief(last_value(file)) == "f(a, b)"
    file = parse(f"f({'long_name, ' * 9})")
    assert file.brief(last_value(file)) == "f(long_name, long_name, long_name, lo..."


@pytest.mark.parametrize("padding", [0, 20_000])
def test_columns_count_characters(padding: int) -> None:
    filler = "é" * padding
    file = parse(f"x = '{filler}é'; y = f(x)\n")
    start = padding + 13
    assert file.span(last_value(file)) == Span(1, start, 1, start + 4)
