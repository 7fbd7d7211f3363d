"""Sites of two runs are paired by name and order, never by a guess."""

from __future__ import annotations

import pytest

from shardlift.capture.pairs import pair_sites
from shardlift.capture.schema import Site


def sites(*keys: str) -> list[Site]:
    """``a.py:3:step``."""
    parts = [key.split(":") for key in keys]
    return [Site(file, int(line), function) for file, line, function in parts]


@pytest.mark.parametrize(
    ("before", "after", "pairs"),
    [
        ("", "", []),
        ("a.py:1:f", "a.py:9:f", [(0, 0)]),
        ("a.py:1:f", "b.py:9:f", [(0, 0)]),
        ("a.py:1:f", "a.py:1:g", []),
        ("a.py:1:f a.py:2:f", "a.py:2:f a.py:3:f", [(0, 0), (1, 1)]),  # a line was added above
        ("a.py:1:f a.py:2:f", "a.py:2:f", [(1, 0)]),
        ("a.py:1:f a.py:2:f", "a.py:7:f", []),
        ("a.py:1:f b.py:1:f", "b.py:5:f a.py:5:f", [(0, 1), (1, 0)]),
        ("a.py:1:<lambda>", "a.py:5:<lambda>", [(0, 0)]),
        ("a.py:1:<lambda> a.py:2:<lambda>", "a.py:2:<lambda> a.py:3:<lambda>", [(1, 0)]),
    ],
)
def test_pairs(before: str, after: str, pairs: list[tuple[int, int]]) -> None:
    assert pair_sites(sites(*before.split()), sites(*after.split())) == pairs
