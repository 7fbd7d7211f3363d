"""Which sites and leaves of two programs belong together."""

from __future__ import annotations

import itertools

import pytest

from shardlift.capture.schema import Form
from shardlift.verify.compare.pairs import pair_leaves


def _forms(names: tuple[str, ...]) -> list[Form]:
    return [Form(name, "float32", (8,)) for name in names]


@pytest.mark.parametrize("before", [*itertools.permutations("abc", 2)])
@pytest.mark.parametrize("after", [*itertools.permutations("abcd", 2)])
def test_leaves_with_the_same_name_are_always_paired(
    before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    pairs, missing, more = pair_leaves(_forms(before), _forms(after))
    assert (len(pairs), missing, more) == (2, [], [])
    names = {before[i]: after[j] for i, j in pairs}
    for name in {*before} & {*after}:
        assert names[name] == name


def test_leaves_of_one_side_only() -> None:
    pairs, missing, more = pair_leaves(_forms(("a", "b", "c")), _forms(("c", "d")))
    assert (pairs, missing, more) == ([(2, 0)], ["a", "b"], ["d"])
