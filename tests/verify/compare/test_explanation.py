"""Explanations: findings and clues in, causes out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardlift.capture.schema import Part
from shardlift.verify.compare.causes import Suspicion
from shardlift.verify.compare.explanation import WHOLE_BATCH, Clues, explain
from shardlift.verify.compare.verdicts import LeafDifference


def _finding(part: Part, cause: str = "", call: int = 0, about: str = "") -> LeafDifference:
    return LeafDifference("x", call, part, "differs", cause=cause, about=about)


def test_nothing_is_explained_if_nothing_differs() -> None:
    close = LeafDifference("x", 0, Part.OUTPUTS, "differs", cause="rounding", close=True)
    assert list(explain([close], Clues(own=True, arguments={"swapped": None}))) == []
    assert list(explain([], Clues())) == []


@pytest.mark.parametrize(
    ("findings", "causes"),
    [
        ([_finding(Part.CALLS, "donated")], ["donated"]),
        ([_finding(Part.CALLS)], []),
        ([_finding(Part.OUTPUTS, "a")], ["1 of 1 differing leaf: a"]),
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


@pytest.mark.parametrize(
    ("suspicion", "which", "confirmed"),
    [
        (Suspicion.MISSING_REDUCTION, "before", True),
        (Suspicion.MISSING_REDUCTION, "after", False),
        (Suspicion.STATISTICS, "after", True),
        (Suspicion.STATISTICS, "", False),
    ],
)
def test_a_suspicion_is_printed_if_it_is_confirmed(
    suspicion: Suspicion, which: str, confirmed: bool
) -> None:
    finding = replace(_finding(Part.OUTPUTS, "a"), suspicion=suspicion)
    clues = Clues(own=True, collectives={"psum": which} if which else {})
    if suspicion is Suspicion.STATISTICS and not confirmed:
        assert list(explain([finding], clues)) == []  # few numbers look like that by chance
        return
    cause = "1 of 1 differing leaf: a" + f": {suspicion}" * confirmed
    assert list(explain([finding], clues)) == [cause, *["psum"] * confirmed]
    if confirmed:
        clues.whole_batch = True
        is_whole = suspicion is Suspicion.STATISTICS
        assert (WHOLE_BATCH in explain([finding], clues)) is is_whole


DIFFERENT = [_finding(Part.OUTPUTS)]


@pytest.mark.parametrize(
    ("clues", "causes"),
    [
        (Clues(own=True, arguments={"swapped": None}), ["swapped"]),
        (Clues(own=False, arguments={"swapped": None}), []),
        (Clues(own=True, keys={"keys": None}, whole_batch=True), ["keys"]),
        (Clues(own=True, replaced={"pmin instead of pmax": None}), ["pmin instead of pmax"]),
        (Clues(replaced={"pmin instead of pmax": None}), []),
        (Clues(own=True, collectives={"psum only before": "before"}), []),
        (Clues(inputs="x: too large"), ["its inputs differ: x: too large"]),
        (Clues(own=True, inputs="x: too large"), []),
    ],
)
def test_causes_of_calls(clues: Clues, causes: list[str]) -> None:
    assert list(explain(DIFFERENT, clues)) == causes


@pytest.mark.parametrize(
    ("clues", "itself"),
    [
        (Clues(), None),
        (Clues(own=True), True),
        (Clues(other_inputs=True), False),
        (Clues(own=True, other_inputs=True), True),
    ],
)
def test_whether_the_function_itself_differs(clues: Clues, itself: bool | None) -> None:
    assert clues.itself is itself
