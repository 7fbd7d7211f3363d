"""Reading and parsing source text."""

import doctest

import pytest

from shardlift.source import text as text_module
from shardlift.source.text import (
    LARGEST,
    Source,
    UnreadableError,
    has_comment,
    parse_source,
    read_source,
)


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("m.py", b"\xff\xfe", "cannot be decoded"),
        ("m.py", b"# coding: nonsense\n", "cannot be decoded"),
        ("m.ipynb", b"\xff", "cannot be decoded"),
        ("m.ipynb", b"{", "not a notebook"),
        ("m.ipynb", b"[]", "no list of cells"),
        ("m.ipynb", b'{"cells": [{"cell_type": "code", "source": 1}]}', "neither a string nor"),
        ("m.ipynb", b"[" * 100_000, "nested too deeply"),
    ],
)
def test_unreadable_content(path: str, content: bytes, message: str) -> None:
    with pytest.raises(UnreadableError, match=message):
        read_source(path, content)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("print 'x'", r"line 1: .*\(as Python 3"),
        ("%timeit f(x)\n", "line 1: invalid syntax"),
        ("x = 1\0", "null bytes"),
        ("(" * 5000, "too many nested|nested too deeply"),
        ("x" * (LARGEST + 1), "more than the limit of 8"),
    ],
    ids=["python-2", "timed", "null", "nested", "large"],
)
def test_unreadable_text(text: str, message: str) -> None:
    with pytest.raises(UnreadableError, match=message):
        parse_source(read_source("m.py", text.encode()))


def test_warnings_of_the_parser_are_not_shown(recwarn: pytest.WarningsRecorder) -> None:
    parse_source(Source("m.py", "x = '\\d'"))
    assert not recwarn.list


def test_examples_run():
    outcome = doctest.testmod(text_module)
    assert outcome.attempted > 0
    assert outcome.failed == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(f(x))", False),
        ("(f('#'))", False),
        ("(f(x,  # rows\n))", True),
        ("f(x,  # not closed", True),  # it may be one
        ("'#", True),
    ],
)
def test_whether_there_is_a_comment(text: str, expected: bool):
    assert has_comment(text) is expected
