"""Lines broken where a formatter would break them."""

import pytest

from shardlift.rewrite.call_format import CallText, Style, TextBlock, render

_STYLE = Style(40, "    ", "'")
_CALL = CallText("f", ("aaaa", CallText("g", ("bbbb", "cccc")), "dddd"))


def test_on_one_line_where_it_fits() -> None:
    assert render(_CALL, _STYLE, "", 0) == "f(aaaa, g(bbbb, cccc), dddd)"


def test_the_arguments_on_a_line_of_their_own() -> None:
    assert render(_CALL, _STYLE, "", 20) == "f(\n    aaaa, g(bbbb, cccc), dddd\n)"
    assert "\n" in render(_CALL, Style(200, "    ", "'"), "", 100)


def test_one_a_line_with_a_comma() -> None:
    long = CallText("f", ("a" * 30, CallText("g", ("b" * 20, "c" * 20))))
    assert render(long, _STYLE, "  ", 2) == (
        "f(\n      " + "a" * 30 + ",\n      g(\n          " + "b" * 20 + ",\n          "
        "" + "c" * 20 + ",\n      ),\n  )"
    )


def test_lines_move_with_the_call() -> None:
    text = CallText("f", (TextBlock("lambda x: (\n    x\n)", ""), "'i'"))
    assert render(text, _STYLE, "", 0) == "f(\n    lambda x: (\n        x\n    ),\n    'i',\n)"


@pytest.mark.parametrize(
    ("text", "width", "indent", "quote"),
    [
        ("def f():\n  return 'a'\n", 80, "  ", "'"),
        ('def f():\n    return "a"\n', 80, "    ", '"'),
        ("def f():\n\treturn 1\n", 80, "\t", '"'),
        (("y = " + "z" * 70 + "  # pytype: disable\n") * 9, 80, "    ", '"'),
        ('if y:\n    x = f("' + "z" * 20 + '"' + ", z" * 17 + ")\n", 88, "    ", '"'),
        ("if y:\n    x = f('" + "z" * 20 + "'" + ", z" * 17 + ")\n", 80, "    ", "'"),
        (("y = " + "z" * 130 + "\n") * 9, 150, "    ", '"'),
        ("x = 1  " + "#" * 85 + "\n" + ("y = " + "z" * 90 + "\n") * 9, 100, "    ", '"'),
    ],
)
def test_style(text: str, width: int, indent: str, quote: str) -> None:
    assert Style.of(text) == Style(width, indent, quote)


TYPED = "def f(x: int) -> int:\n    return x\n\n\n"
PLAIN = "def f(x):  # int -> int\n    '''f -> g -> h'''\n    return x  # -> x\n\n\n"


@pytest.mark.parametrize(
    ("text", "typed"), [(TYPED, True), (PLAIN, False), (TYPED + PLAIN, False), ("x = 1\n", False)]
)
def test_annotations_are_counted_on_functions(text: str, typed: bool) -> None:
    assert Style.of_helpers(text).typed is typed
