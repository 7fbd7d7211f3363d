"""The numbers of a report follow from the facts."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlift.capture.schema import HOST, Capture, Move, MovedBy, Times
from shardlift.report import numbers
from shardlift.report.view import missing_processes, view_of
from tests.capture.captures import SPLIT, distribution, everything, leaf, process, site


def test_the_parts_of_a_site():
    parts = numbers.parts_of(site())
    assert parts == pytest.approx(numbers.TimeParts(waiting=0.02, dispatch=0.03, moving=0.01))
    assert numbers.cost_of(site()) == pytest.approx(0.06 + 0.8)


def test_what_the_program_moves_is_taken_off_the_dispatch():
    moved = site(
        moves=(Move("x", HOST, SPLIT, 400, 2, MovedBy.PROGRAM),),  # on 2 of 4 calls looked at
        times=Times(call=distribution(*[0.004] * 10), probes=distribution(0.002, 0.002, 0.002)),
    )
    parts = numbers.parts_of(moved)
    assert parts.moving == pytest.approx(0.010, rel=0.04)
    assert parts.dispatch + parts.moving == pytest.approx(0.04)
    assert numbers.moved_bytes(moved) == 100


def test_moving_is_never_more_than_the_call():
    probes = distribution(*[10.0] * 3)
    times = Times(call=distribution(0.1), probes=probes)
    moves = (Move("x", HOST, SPLIT, 4, 4, MovedBy.PROGRAM),)
    parts = numbers.parts_of(site(moves=moves, times=times))
    assert (parts.dispatch, parts.moving) == (0, pytest.approx(0.1))


def test_the_sentence():
    capture = Capture(processes=(process(),), sites=(site(), site(line=13)))
    assert numbers.moving_share(capture) == pytest.approx(1 / 6)
    assert view_of(capture, "").headline == (
        "2 pmap sites; 17 % of step time is moving data; none needs a decision"
    )
    assert view_of(everything(), "").headline.endswith("1 needs a decision")
    assert view_of(Capture(), "").headline == "this run has no pmap site"
    assert view_of(Capture(sites=(site(calls=0),)), "").headline == "1 pmap site, none called"
    only_compiled = site(times=Times(compiling=distribution(1.0)))
    assert "every call compiled" in view_of(Capture(sites=(only_compiled,)), "").headline
    assert "since every call compiled" in view_of(Capture(sites=(only_compiled,)), "").unseen[0]
    assert view_of(Capture(sites=(site(calls=0, times=Times()),)), "").unseen == ()


def test_bytes_that_are_the_same_everywhere():
    equal = leaf(nbytes=800, equal=True, compared=2)
    unlike = leaf("b", nbytes=800, equal=False, compared=2)
    whole = leaf("c", nbytes=800, equal=True, compared=2, axis=None)
    unknown = leaf("d", nbytes=800)
    assert numbers.wasted_bytes(site(arguments=(equal, unlike, whole, unknown))) == 700


@given(st.floats(0, 1e9))
def test_words_for_numbers(value):
    assert len(numbers.seconds(value)) <= 14
    assert len(numbers.amount(value)) <= 9
    assert numbers.percent(min(value, 1.0)).endswith("%")
    assert 0 <= numbers.share(value, 1e9) <= 1


def test_few_words():
    assert (numbers.count(1, "site"), numbers.count(12345, "call")) == ("1 site", "12 345 calls")
    assert [numbers.count(k, "process") for k in (1, 2)] == ["1 process", "2 processes"]
    assert numbers.list_names("abcde") == "a, b, c and 2 more"
    assert numbers.share(1, 0) == 0


def test_processes_that_did_not_end_are_named_with_their_hosts():
    cut = [replace(process(k, 3), ended=False, host=f"host{k % 2}") for k in (0, 2)]
    (text,) = missing_processes(Capture(processes=(*cut, process(1, 3))))
    assert text == "the rest of processes 0, 2 of 3 (on host0), which did not come to an end"


def test_a_capture_that_claims_any_number_of_processes():
    capture = Capture(processes=(replace(process(), index=0, count=2**60),))
    assert len(capture.missing) < 2**20
    (text,) = missing_processes(capture)
    assert str(2**60) in text
