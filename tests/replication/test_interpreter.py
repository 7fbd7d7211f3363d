"""Values of the proof: the axes along which they differ, and the cause of that."""

import types

import pytest

from shardlift._replication.control_flow import enter_map, leave_map
from shardlift._replication.interpreter import TORN, Cause, Varying, all_of, both, rebase, used

ALONG_I, ALONG_J, BOTH = frozenset("i"), frozenset("j"), frozenset("ij")
CAUSE = Cause(0)


def value(axes, cause=CAUSE):
    return Varying(frozenset(axes), cause)


def equation(name="add"):
    return types.SimpleNamespace(primitive=types.SimpleNamespace(name=name), outvars=[0])


def test_a_function_has_the_axes_of_all_operands_and_the_cause_of_the_first():
    first, second = value(ALONG_I), value(ALONG_J, Cause(1))
    assert both(None, second) is second
    assert both(first, None) is first
    assert both(first, second) == value(BOTH)
    assert both(first, value(BOTH, Cause(1))) == value(BOTH)
    assert all_of([None, second, first]) == value(BOTH, Cause(1))
    assert all_of([]) is None


def test_the_first_use_is_remembered_and_a_view_is_not_a_use():
    add, mul = equation("add"), equation("mul")
    assert used(value(ALONG_I), equation("squeeze")) == value(ALONG_I)
    assert used(used(value(ALONG_I), add), mul).cause.eqn is add
    assert used(None, add) is None


def test_causes_are_told_in_terms_of_the_caller():
    add, loop = equation("add"), equation("while")
    inside = value(ALONG_I, Cause(1, add))
    assert rebase(inside, [None, value(ALONG_I, Cause(7))]).cause == Cause(7, add)
    earlier = value(ALONG_I, Cause(7, loop))
    assert rebase(inside, [None, earlier]).cause == Cause(7, loop)
    own = value(ALONG_I, Cause(None, add, "is different"))
    assert rebase(own, []) == own


@pytest.mark.parametrize(
    ("outside", "spec", "inside"),
    [
        ((), (), ()),
        ((), ("j", None), "j"),
        ((), (("i", "j"),), "j"),
        ("i", (None,), "i"),
        ("i", ("j",), "ij"),
        ((TORN,), (), (TORN, "j")),  # it may differ along an axis of an earlier map
    ],
)
def test_into_a_map_over_j(outside, spec, inside):
    given = value(outside) if outside else None
    assert enter_map(given, spec, ALONG_J, CAUSE) == (value(inside) if inside else None)


@pytest.mark.parametrize(
    ("inside", "spec", "outside"),
    [
        ((), (), ()),
        ("i", (), "i"),
        ("ij", ("j",), "i"),
        ("j", ("j",), ()),
        ("ij", (None,), ("i", TORN)),
        ((TORN, "j"), ("j",), (TORN,)),
    ],
)
def test_out_of_a_map_over_j(inside, spec, outside):
    given = value(inside) if inside else None
    assert leave_map(given, spec, ALONG_J) == (value(outside) if outside else None)
