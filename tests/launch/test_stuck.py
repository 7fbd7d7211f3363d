"""When a job counts as stuck."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlift.launch.stuck import PATIENCE, Sample, StuckClock

LIMIT = 60.0
STEP = StuckClock(LIMIT).interval


def reports(clock: StuckClock, samples: list[Sample]) -> list[float]:
    return [sample.at for sample in samples if clock.add(sample)]


def quiet(count: int, start: float = 0.0, cpu: float = 1.0, printed: int = 5) -> list[Sample]:
    return [Sample(start + STEP * k, (cpu, cpu), printed) for k in range(count)]


def test_a_quiet_job_is_reported_once():
    assert reports(StuckClock(LIMIT), quiet(500)) == [LIMIT]


def test_idle_threads_are_not_work():
    used = 0.0034 * STEP  # the most that was measured of a deadlocked process
    samples = [Sample(STEP * k, (used * k, used * k), 5) for k in range(100)]
    assert reports(StuckClock(LIMIT), samples) == [LIMIT]


@pytest.mark.parametrize("worker", [0, 1])
def test_one_process_that_computes_is_enough(worker: int):
    samples = [
        Sample(STEP * k, tuple(STEP * k if n == worker else 1.0 for n in range(2)), 5)
        for k in range(100)
    ]
    assert reports(StuckClock(LIMIT), samples) == []


def test_a_job_that_prints_is_not_stuck():
    samples = [Sample(STEP * k, (1.0,), printed=k // 20) for k in range(200)]
    assert reports(StuckClock(LIMIT), samples) == []


def test_a_process_that_ended_counts_as_a_move():
    before, after = quiet(20, cpu=3.0), quiet(40, start=20 * STEP, cpu=2.0)
    assert reports(StuckClock(LIMIT), before + after) == [20 * STEP + LIMIT]


def test_a_job_that_moves_again_has_to_be_quiet_for_much_longer():
    first, then = quiet(40), quiet(2000, start=1000.0, printed=6)
    assert reports(StuckClock(LIMIT), first + then) == [LIMIT, 1000.0 + PATIENCE * LIMIT]


def test_the_time_in_which_the_launcher_was_stopped_does_not_count():
    samples = quiet(3) + [Sample(10_000.0 + at.at, at.cpu, at.printed) for at in quiet(5)]
    assert reports(StuckClock(LIMIT), samples) == []


def test_answering_does_not_count_as_a_move():
    clock = StuckClock(LIMIT)
    assert reports(clock, quiet(31)) == [LIMIT]
    assert reports(clock, quiet(5000, start=62.0, cpu=1.3, printed=9)) == []


@given(st.lists(st.tuples(st.floats(0.1, 5), st.floats(0, 0.5), st.integers(0, 1)), max_size=80))
def test_a_report_means_that_nothing_happened_for_the_limit(steps):
    clock, limit = StuckClock(20.0), 20.0
    at, cpu, printed = (
        (list(accumulate(column)) for column in zip(*steps, strict=True)) if steps else ([], [], [])
    )
    samples = [Sample(a, (c,), p) for a, c, p in zip(at, cpu, printed, strict=True)]
    told = [k for k, sample in enumerate(samples) if clock.add(sample)]
    for k in told:
        window = [s for s in samples[: k + 1] if s.at >= samples[k].at - limit]
        assert len({s.printed for s in window}) == 1
