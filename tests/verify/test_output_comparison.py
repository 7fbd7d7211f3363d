"""What two programs print and write, compared."""

import re

import pytest

from shardlift.verify.compare.array_distance import Tolerance
from shardlift.verify.output_comparison import compare_output, masked, without_gloo

EXACT = Tolerance()


def printed(out: str = "", err: str = "") -> dict[str, str]:
    return {"stdout": out, "stderr": err}


def differences(
    before: dict[str, str], after: dict[str, str], tolerance: Tolerance = EXACT
) -> list[str]:
    return [str(difference) for difference in compare_output(before, after, tolerance)]


@pytest.mark.parametrize(
    "line",
    [
        "loss 0.5 min 0.2", "[1. 2. 3.]", "3 steps", "10:3", "s 3", "line 4", "x = 0x1f", "2026",
    ],
)  # fmt: skip
def test_every_number_counts(line: str) -> None:
    changed = re.sub(r"\d", lambda digit: str((int(digit[0]) + 1) % 10), line, count=1)
    assert differences(printed(line), printed(line)) == []
    assert differences(printed(line), printed(changed)) == [
        f"stdout, line 1: {line!r} before, {changed!r} after"
    ]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("2026-11-16 10:37:53,123 INFO go", "2026-11-17 00:00:00,9 INFO go"),
        ("2026-11-16T10:37:53Z", "2026-11-16T10:38:53Z"),
        ("Mon Nov 16 10:37:53 2026", "Tue Nov  3 10:37:54 2026"),
        ("at 10:37:53.5", "at 9:37:53.51"),
        ("took 1.25 s", "took 0.9 s"),
        ("took 3ms, 1.5e-05 seconds", "took 41ms, 2e-06 seconds"),
        ("12.5 steps/s", "9 steps/s"),
        ("12.5it/s 3.2s/it", "3it/s 4s/it"),
        ("<object at 0x7f00a1b2c3d4>", "<object at 0x7f00a1b2ffff>"),
        ("train.py:12: here", "train.py:60: here"),
        ("wrote /tmp/tmpabc/x.npz", "wrote /tmp/tmpdef/x.npz"),
        ("a\r\n\r 1%|#\r100%|##\n", "a\n100%|##"),
    ],
)
def test_what_may_differ(one: str, two: str) -> None:
    assert differences(printed(one), printed(two)) == []
    if "%" not in one:
        assert masked(printed(one))


def test_lines_that_one_program_has_more() -> None:
    (said,) = differences(printed("a\nb\nc\n"), printed("a\nc\n"))
    assert said == "stdout: 'b' before, 'c' after"
    (said,) = differences(printed("a\n"), printed("a\nb\n"))
    assert said == "stdout: only after: 'b'"
    assert differences(printed("a\n"), printed("a\n\n"))


def test_a_line_that_differs_from_itself_excuses_no_other() -> None:
    before, again = printed("x 1\ny 1\n"), printed("x 2\ny 1\n")
    unstable = {one.place for one in compare_output(before, again, EXACT)}
    assert compare_output(before, printed("x 3\ny 1\n"), EXACT, unstable) == []
    (one,) = compare_output(before, printed("x 3\ny 2\n"), EXACT, unstable)
    assert one.at == "stdout, line 2"
    assert compare_output(before, printed("x 3\n"), EXACT, unstable)


@pytest.mark.parametrize(
    ("one", "two", "tolerance", "same"),
    [
        ("loss 1.0000000", "loss 1.0000001", Tolerance(ulps=4), True),
        ("loss 1.0000000", "loss 1.0001000", Tolerance(ulps=4), False),
        ("loss 1.0000000", "loss 1.0001000", Tolerance(rtol=1e-3), True),
        ("loss 1.0", "gain 1.0", Tolerance(rtol=1e-3), False),
        ("step 3", "step 4", Tolerance(rtol=1e-3), False),
        ("loss 1.0000000", "loss 1.0000001", Tolerance(), False),
    ],
)
def test_numbers_within_the_tolerance(one: str, two: str, tolerance: Tolerance, same: bool) -> None:
    assert (differences(printed(one), printed(two), tolerance=tolerance) == []) is same


def test_standard_error_is_not_compared() -> None:
    assert differences(printed("a", "one"), printed("a", "two")) == []


CONNECTED = (
    "[Gloo] Rank 0 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1"
)
REST = CONNECTED.removeprefix("[Gloo] Rank ")


@pytest.mark.parametrize(
    "noise",
    [
        CONNECTED,
        f"{CONNECTED}\n{CONNECTED}",
        f"[Gloo] Rank {CONNECTED}\n{REST}",
        f"[Gloo] Rank {CONNECTED}{REST}\n",  # the second line is empty
        f"[Gloo] Rank {CONNECTED}\n1",
    ],
)
def test_what_gloo_prints_is_no_output_of_the_program(noise: str) -> None:
    own = "1\n\nloss 0.5\n"
    assert without_gloo(f"{noise}\n{own}") == own
    assert without_gloo(f"loss 1\n{noise}\n{own}") == f"loss 1\n{own}"
    assert differences(printed(own), printed(f"{noise}\n{own}")) == []


@pytest.mark.parametrize("text", ["1\n\n2", f"rank: {CONNECTED}\n1", "[Gloo] Rank of 3\n1"])
def test_a_program_may_speak_of_gloo(text: str) -> None:
    assert without_gloo(text) == text


@pytest.mark.parametrize(
    ("before", "after", "of_numbers"),
    [
        ("loss 0.5", "loss 0.25", [True]),
        ("loss 0.5", "loss nan", [True]),
        ("equal: True", "equal: False", [True]),
        ("loss 0.5", "loss: 0.5", [False]),
        ("PmapSharding", "NamedSharding", [False]),
        ("a\nloss 0.5", "a\nb\nloss 0.5", [False]),
        ("a\nloss 0.5", "a\nb\nloss 0.25", [True]),
    ],
)
def test_other_words_are_told_from_other_numbers(before, after, of_numbers):
    sides = printed(before), printed(after)
    assert [one.of_numbers for one in compare_output(*sides, EXACT)] == of_numbers
