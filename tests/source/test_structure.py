"""Structures of values: joining, combining and asking about them."""

from __future__ import annotations

import ast

import pytest

from shardlift.source.structure import (
    Leaf,
    Parts,
    Structure,
    as_arrays,
    can_change,
    combine,
    is_all_leaves,
    join,
    part,
    tuple_of,
)

A, N = Leaf.ARRAY, Leaf.NUMBER
PAIR = tuple_of(A, N)
DICT = Parts(dict, {"a": A})


@pytest.mark.parametrize(
    ("structures", "expected"),
    [
        ([A, A], A),
        ([A, N], N),
        ([A, None], None),
        ([], None),
        ([PAIR, tuple_of(A, A)], tuple_of(A, N)),
        ([PAIR, tuple_of(A)], None),
        ([PAIR, A], None),
        ([PAIR, Parts(list, PAIR.of)], None),
    ],
)
def test_join(structures: list[Structure], expected: Structure) -> None:
    assert join(structures) == expected


@pytest.mark.parametrize(
    ("operator", "left", "right", "expected"),
    [
        (ast.Add(), A, None, A),
        (ast.Mult(), N, N, N),
        (ast.Mult(), N, None, None),
        (ast.Add(), N, None, N),
        (ast.Add(), None, None, None),
        (ast.Add(), PAIR, PAIR, tuple_of(A, N, A, N)),
        (ast.Add(), PAIR, Parts(list, {}), None),
        (ast.Add(), DICT, DICT, None),
        (ast.Add(), PAIR, None, None),
        (ast.BitOr(), DICT, DICT, None),
        (ast.Sub(), None, None, N),
        (ast.Div(), None, None, A),
        (ast.MatMult(), None, None, A),
    ],
)
def test_combine(
    operator: ast.operator, left: Structure, right: Structure, expected: Structure
) -> None:
    assert combine(operator, left, right) == expected


@pytest.mark.parametrize(
    ("structure", "changes", "leaves"),
    [
        (A, False, True),
        (None, False, False),
        (PAIR, False, True),
        (tuple_of(A, None), False, False),
        (DICT, True, True),
        (tuple_of(DICT), True, True),
    ],
)
def test_questions(structure: Structure, changes: bool, leaves: bool) -> None:
    assert can_change(structure) is changes
    assert is_all_leaves(structure) is leaves


def test_parts() -> None:
    assert part(PAIR, 1) is N
    assert part(PAIR, 5) is None
    assert part(A, 0) is None


def test_tracing_makes_arrays() -> None:
    assert as_arrays(tuple_of(N, None, A)) == tuple_of(A, None, A)
