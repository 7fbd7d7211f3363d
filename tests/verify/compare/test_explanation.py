"""Explanations: findings and clues in, causes out."""

from __future__ import annotations

import pytest

from shardlift.capture.schema import Part
from shardlift.verify.compare.explanation import Clues, explain
from shardlift.verify.compare.verdicts import LeafDifference


def _finding(part: Part, cause: str = "", call: int = 0, about: str = "") -> LeafDifference:
    return LeafDifference("x", call, part, "differs", cause=cause, about=about)


def test_nothing_is_explained_if_nothing_differs() -> None:
    close = LeafDifference("x", 0, Part.OUTPUTS, "differs", cause="rounding", close=True)
    clues = Clues(own=True, inputs="x")
    assert list(explain([close], clues)) == []
    assert list(explain([], Clues(inputs="x"))) == []


@pytest.mark.parametrize(
    ("findings", "causes"),
    [
        ([_finding(Part.CALLS)], []),
        (
            [_finding(Part.OUTPUTS, "b"), _finding(Part.OUTPUTS, "a"), _finding(Part.OUTPUTS, "b")],
            ["2 of 3 differing leaves: b", "1 of 3 differing leaves: a"],
        ),
        (  # later calls differ because of the first
            [_finding(Part.OUTPUTS, "a", call=1), _finding(Part.OUTPUTS, "b", call=2)],
            ["1 of 2 differing leaves: a"],
        ),
        (
            [_finding(Part.INSIDE, "c", about="psum(x)"), _finding(Part.OUTPUTS, "a")],
            ["every array of psum(x): c"],
        ),
        (
            [_finding(Part.INSIDE, "c", about="psum(x)"), _finding(Part.INSIDE, "c", about="y")],
            ["2 collectives: c"],
        ),
        (
            [_finding(Part.INSIDE, "c", about="psum(x)"), _finding(Part.INSIDE, about="y")],
            ["1 collective: c"],
        ),
    ],
)
def test_causes_of_arrays(findings: list[LeafDifference], causes: list[str]) -> None:
    assert list(explain(findings, Clues())) == causes


DIFFERENT = [_finding(Part.OUTPUTS)]


@pytest.mark.parametrize(
    ("findings", "clues", "causes"),
    [
        (DIFFERENT, Clues(inputs="x: too large"), ["its inputs differ: x: too large"]),
        (DIFFERENT, Clues(own=True, inputs="x: too large"), []),
    ],
)
def test_causes_of_calls(findings: list[LeafDifference], clues: Clues, causes: list[str]) -> None:
    assert list(explain(findings, clues)) == causes
