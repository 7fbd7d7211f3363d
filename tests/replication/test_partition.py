"""The lattice of the proof: partitions of the devices, and values with their causes."""

from __future__ import annotations

import itertools
import types

import pytest

from shardlift._replication.interpreter import (
    Cause,
    MapScope,
    Varying,
    all_of,
    apart,
    both,
    rebase,
    used,
)
from shardlift._replication.partition import (
    Space,
    along,
    coordinates,
    groups_of,
    lift,
    meet,
    members,
    partition,
    project,
)

GRID = Space(("i", "j"), (2, 3))
ROWS = (0, 0, 0, 1, 1, 1)  # equal along j
COLUMNS = (0, 1, 2, 0, 1, 2)  # equal along i
ALL_APART = tuple(range(6))
SOME = [None, ROWS, COLUMNS, ALL_APART, (0, 0, 1, 1, 2, 2)]


def test_the_meet_is_a_semilattice():
    for a, b, c in itertools.product(SOME, repeat=3):
        assert meet(a, b) == meet(b, a)
        assert meet(a, a) == a
        assert meet(meet(a, b), c) == meet(a, meet(b, c))
        assert meet(a, None) == a
    assert meet(ROWS, COLUMNS) == ALL_APART


def test_axes_and_groups_of_a_grid():
    assert coordinates(GRID, ("i",)) == ROWS
    assert coordinates(GRID, ("j", "i")) == ALL_APART
    assert coordinates(GRID, ()) is None
    assert groups_of(GRID, ("i", "j"), None) == (ALL_APART,)
    assert groups_of(GRID, ("j", "i"), None) == ((0, 3, 1, 4, 2, 5),)
    assert groups_of(GRID, ("j",), ((2, 0), (1,))) == ((2, 0), (1,), (5, 3), (4,))
    assert along(GRID, ROWS) == ("j",)
    assert along(GRID, None) == ("i", "j")
    assert along(GRID, ALL_APART) == ()
    assert members(ROWS) == ((0, 1, 2), (3, 4, 5))
    assert partition([]) is None


@pytest.mark.parametrize("classes", [None, (0, 1)])
def test_into_a_map_and_out_again(classes):
    outer, inner = Space(("i",), (2,)), GRID
    assert outer.extend(("j",), (3,)) == inner
    lifted = lift(classes, outer, inner, ())
    assert lifted == (None if classes is None else ROWS)
    assert project(lifted, outer, inner) == classes
    assert lift(classes, outer, inner, ("j",)) == (COLUMNS if classes is None else ALL_APART)
    # A value that is split in the same way on every outer device is the same on them outside.
    assert project(COLUMNS, outer, inner) is None


def equation(name="add"):
    return types.SimpleNamespace(primitive=types.SimpleNamespace(name=name))


def test_the_cause_of_a_function_is_that_of_its_first_varying_operand():
    first, second = Varying(ROWS, Cause(0)), Varying(COLUMNS, Cause(1))
    assert both(None, second) is second
    assert both(first, None) is first
    assert both(first, second) == Varying(ALL_APART, Cause(0))
    assert both(Varying(ALL_APART, Cause(0)), first).cause == Cause(0)
    assert all_of([None, second, first]).cause == Cause(1)
    assert all_of([]) is None


def test_the_first_use_is_remembered_and_a_view_is_not_a_use():
    value = Varying(ROWS, Cause(0))
    add, mul = equation("add"), equation("mul")
    assert used(value, equation("squeeze")) is value
    assert used(used(value, add), mul).cause.eqn is add
    assert used(None, add) is None


def test_causes_are_told_in_terms_of_the_caller():
    add, loop = equation("add"), equation("while")
    inside = Varying(ROWS, Cause(1, add))
    assert rebase(inside, [None, Varying(ROWS, Cause(7))]).cause == Cause(7, add)
    earlier = Varying(ROWS, Cause(7, loop, control=loop))
    assert rebase(inside, [None, earlier]).cause == Cause(7, loop, control=loop)
    own = Varying(ROWS, Cause(None, add, "is different"))
    assert rebase(own, []) == own
    assert rebase(None, []) is None


def test_on_one_device_nothing_differs():
    assert apart(MapScope(Space(("i",), (1,))), Cause(0)) is None
    assert apart(MapScope(GRID), Cause(0)).classes == ALL_APART
