"""Sites of two runs are paired by name and order, never by a guess."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from shardlift.capture.schema import SiteFacts
from shardlift.capture.site_pairs import pair_sites


def sites(*keys: str) -> list[SiteFacts]:
    """``a.py:3:step``."""
    parts = [key.split(":") for key in keys]
    return [SiteFacts(file, int(line), function) for file, line, function in parts]


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
        ("a.py:1:f a.py:1:f a.py:2:f", "a.py:1:f a.py:1:f", [(0, 0), (1, 1)]),  # of one line
        ("a.py:1:<lambda>", "a.py:5:<lambda>", [(0, 0)]),
        ("a.py:1:<lambda> a.py:2:<lambda>", "a.py:2:<lambda> a.py:3:<lambda>", [(1, 0)]),
    ],
)
def test_pairs(before: str, after: str, pairs: list[tuple[int, int]]) -> None:
    assert pair_sites(sites(*before.split()), sites(*after.split())) == pairs


def test_many_sites_of_one_function_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: Counter[str] = Counter()
    monkeypatch.setattr(
        SiteFacts, "key", property(lambda site: looked.update("k") or (site.file, site.line))
    )
    before = [SiteFacts("a.py", line, "f") for line in range(200)]
    after = [dataclasses.replace(site) for site in before[1:]]
    assert pair_sites(before, after) == [(k + 1, k) for k in range(199)]
    assert looked.total() <= 2 * 400
