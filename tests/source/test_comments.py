"""Comments in pieces of programs."""

from __future__ import annotations

import doctest

import pytest

from shardlift.source import text as source_text
from shardlift.source.text import has_comment


def test_examples_run():
    outcome = doctest.testmod(source_text)
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
def test_whether_there_is_one(text: str, expected: bool):
    assert has_comment(text) is expected
