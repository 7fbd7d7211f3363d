"""Which places stay: the search, on trials that are made up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlift.capture.schema import SiteKind
from shardlift.verify.bisect import (
    Candidate,
    Trial,
    reached,
    reason,
    runs_needed,
    search,
    trial_of,
    unstable_sites,
)
from shardlift.verify.compare.judge import judge
from shardlift.verify.compare.verdicts import (
    LeafDifference,
    ProgramVerdict,
    Side,
    SitePlace,
    SiteVerdict,
    Verdict,
)
from tests.verify.recording import batch, by_hand


def change(line, file="a.py", is_site=True, by_value=False):
    return Candidate(file, line, ((line, line),) * is_site, is_site, by_value)


PLACES = [change(line, is_site=line % 3 > 0) for line in range(12)]


def trials(bad, named=True):
    """A program that is wrong as long as one of the bad places is rewritten."""
    seen = []

    def attempt(kept):
        seen.append(kept)
        wrong = bad & kept
        blamed = {place: "numbers differ" for place in sorted(wrong)[:1] if named}
        return Trial(not wrong, blamed, "it fails")

    return attempt, seen


@given(st.sets(st.sampled_from(PLACES)), st.booleans(), st.integers(1, 60))
def test_nothing_stays_that_was_not_shown_to_hold(bad, named, most):
    attempt, seen = trials(bad, named)
    found = search(PLACES, attempt, most)
    assert found.runs == len(seen) <= most
    assert not found.kept & bad
    assert found.kept in seen or not found.kept
    assert set(found.out) | found.kept == set(PLACES)
    assert not set(found.out) & found.kept
    if most == 60:
        assert set(found.out) == bad
    if not bad:
        assert found.runs == 1


def test_a_verdict_that_names_a_place_needs_no_bisection():
    attempt, seen = trials({PLACES[7]})
    search(PLACES, attempt, 99, pytest.fail)
    assert len(seen) == 2


@pytest.mark.parametrize("wrong", PLACES, ids=lambda place: str(place.id))
@pytest.mark.parametrize("number", [1, 2, 5, 12])
def test_one_wrong_place_is_found_within_the_runs_that_were_announced(wrong, number):
    places = [*PLACES[:number], *([wrong] if wrong not in PLACES[:number] else [])]
    attempt, seen = trials({wrong}, named=False)
    announced = []
    found = search(places, attempt, runs_needed(places), announced.append)
    assert set(found.out) == {wrong}
    assert found.kept == {*places} - {wrong}
    assert len(seen) <= runs_needed(places)
    assert announced == [runs_needed(places) - 1] * (len(places) > 1)


def test_what_held_is_not_tried_again_and_does_not_stay_if_it_is_named_later():
    attempt, seen = trials({PLACES[10], PLACES[11]}, named=False)
    assert set(search(PLACES, attempt, 99).out) == {PLACES[10], PLACES[11]}
    assert len(seen) == 8
    sites = [place for place in PLACES if place.is_site][:4]
    outcomes = iter([Trial(False), Trial(True), Trial(False), Trial(False, {sites[0]: "differs"})])
    found = search(sites, lambda _: next(outcomes), 4)
    assert (found.kept, found.out[sites[0]]) == (frozenset(), "differs")


def test_what_is_not_tried_is_said():
    attempt, _ = trials({PLACES[7]}, named=False)
    found = search(PLACES, attempt, 1)
    assert set(found.out.values()) == {"not verified within 1 run"}


# ---- what a comparison names


def site(name, verdict, line, itself=None, **options):
    place = SitePlace("a.py", line, name, SiteKind.PMAP, options.pop("calls", 2))
    return SiteVerdict(verdict, place, place, itself=itself, calls=2, **options)


def outcome(*sites, status=0):
    return ProgramVerdict(Side("a"), Side("b", status=status, error="x\nError: no"), tuple(sites))


def test_who_differs_by_itself_is_named_first():
    one, two = (site(name, "different", line, itself) for name, line, itself in
                (("one", 1, True), ("two", 2, None)))  # fmt: skip
    trial = trial_of(outcome(one, two), PLACES)
    assert not trial.holds
    assert set(trial.blamed) == {PLACES[1]}
    assert set(trial_of(outcome(two), PLACES).blamed) == {PLACES[2]}
    given = site("two", "different", 2, False)
    assert trial_of(outcome(given), PLACES).blamed == {}
    assert trial_of(outcome(given), PLACES).problem.startswith("numbers of two differ with it")


@pytest.mark.parametrize(("path", "where"), [("out['w']", "out['w']: "), ("", "")])
def test_the_reason_names_the_leaf(path, where):
    first = LeafDifference(path, 2, "output", "1.0 and 2.0")
    told = f"numbers differ: call 3, {where}1.0 and 2.0"
    assert reason(site("two", "different", 2, findings=(first,))) == told


def test_a_program_that_fails_names_only_what_raised():
    fewer = site("one", "different", 1)
    assert trial_of(outcome(fewer, status=1), PLACES).blamed == {}
    assert "Error: no" in trial_of(outcome(fewer, status=1), PLACES).problem
    raised = site("two", "different", 2, True)
    assert set(trial_of(outcome(fewer, raised, status=1), PLACES).blamed) == {PLACES[2]}


@pytest.mark.parametrize("verdict", ["not compared", "partly compared", "different"])
def test_what_cannot_be_compared(verdict):
    found = outcome(site("one", verdict, 1))
    unstable = unstable_sites(found)
    assert len(unstable) == (verdict == "different")
    assert trial_of(found, PLACES, unstable).holds
    assert not trial_of(found, PLACES, unstable, only_verified=True).holds


def test_a_function_that_differs_from_itself_excuses_none_of_another_line():
    lambdas = [site("<lambda>", "different", line) for line in (1, 2)]
    assert trial_of(outcome(lambdas[0]), PLACES, unstable_sites(outcome(lambdas[0]))).holds
    assert not trial_of(outcome(*lambdas), PLACES, unstable_sites(outcome(lambdas[0]))).holds


def test_a_site_of_one_program_only():
    place = SitePlace("a.py", 1, "one", SiteKind.PMAP, 2)
    alone = SiteVerdict(Verdict.NOT_REACHED, place, None)
    assert alone.differs
    assert set(trial_of(outcome(alone), PLACES).blamed) == {PLACES[1]}


def test_which_sites_were_reached():
    import numpy as np

    rows = batch(np.random.default_rng(0), 8, 2)
    recorded = by_hand({"one": [{"x": rows}], "two": []})
    found = ProgramVerdict(Side("a"), Side("b"), tuple(judge(recorded, recorded)))
    places = [change(line, "by_hand.py") for line in (1, 2)]
    value = change(1, "other.py", by_value=True)
    there = reached(found, recorded.capture, [*places, value])
    assert set(there) == {places[0]}
    assert there[places[0]].verdict == "identical"
    assert set(reached(found, recorded.capture, [value])) == {value}  # mapped through it
    assert reached(found, recorded.capture, [value], refused=places) == {}
