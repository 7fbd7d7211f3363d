"""Explanations: findings in, causes out."""

import pytest

from shardlift.capture.schema import Part
from shardlift.verify.compare.explanation import explain
from shardlift.verify.compare.verdicts import LeafDifference


def _finding(part: Part, cause: str = "", call: int = 0, about: str = "") -> LeafDifference:
    return LeafDifference("x", call, part, "differs", cause=cause, about=about)


def test_nothing_is_explained_if_nothing_differs() -> None:
    close = LeafDifference("x", 0, Part.OUTPUTS, "differs", cause="rounding", close=True)
    assert list(explain([close], True, "x")) == []
    assert list(explain([], None, "x")) == []


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
    assert list(explain(findings)) == causes


DIFFERENT = [_finding(Part.OUTPUTS)]


@pytest.mark.parametrize("itself", [True, False, None])
def test_other_inputs_are_a_cause_unless_the_function_differs_itself(itself: bool | None) -> None:
    causes = [] if itself else ["its inputs differ: x: too large"]
    assert list(explain(DIFFERENT, itself, "x: too large")) == causes
