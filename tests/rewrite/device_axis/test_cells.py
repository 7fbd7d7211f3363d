"""Classes of values: what is known of two that become one, of their parts and of their elements."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from shardlift.rewrite.device_axis.cells import (
    EACH,
    ITERATED,
    Cell,
    CellRole,
    Escape,
    NodePlace,
    Point,
    add_made,
    add_use,
    collapse,
    each,
    escape,
    find,
    iterate,
    part,
    tree,
    unify,
)
from shardlift.source.file import File
from shardlift.source.project import Project
from shardlift.source.text import Source

PATH = "m.py"
FILE: File = Project.of(Source(PATH, "x")).file(PATH)
AT = NodePlace(FILE, ast.Name("x"))
SAID = Escape(AT, "is given away")


def _same(one: Cell, other: Cell) -> bool:
    return find(one) is find(other)


def _made(cell: Cell) -> list[tuple[CellRole, tuple[int | str, ...]]]:
    return [(point.role, point.path) for point in find(cell).made]


def test_two_values_become_one_class_with_all_that_is_known_of_them() -> None:
    one, other = Cell(), Cell()
    add_made(one, Point(CellRole.REPLICATE, AT))
    add_use(other, Point(CellRole.FIRST, AT))
    escape(other, SAID)
    both = unify(one, other)
    assert _same(one, both)
    assert _same(other, both)
    assert _made(both) == [(CellRole.REPLICATE, ())]
    assert [use.role for use in both.uses] == [CellRole.FIRST]
    assert both.escapes == [SAID]


def _three_in_a_row(a: Cell, b: Cell, c: Cell) -> None:
    unify(a, b)
    unify(b, c)


def _by_the_same_part(a: Cell, b: Cell, c: Cell) -> None:
    whole, other = Cell(), Cell()
    unify(part(whole, "k"), a)
    unify(part(other, "k"), b)
    unify(part(whole, 1), c)
    unify(whole, other)


def _by_other_parts(a: Cell, b: Cell, c: Cell) -> None:
    whole, other = Cell(), Cell()
    unify(part(whole, 0), a)
    unify(part(other, 1), b)
    unify(part(other, "k"), c)
    unify(whole, other)


def _as_a_tree(a: Cell, b: Cell, c: Cell) -> None:
    whole = Cell()
    unify(part(whole, 0), a)
    unify(part(whole, "k"), b)
    collapse(whole)
    unify(part(whole, 7), c)


def _as_a_list(a: Cell, b: Cell, c: Cell) -> None:
    elements = Cell()
    unify(part(elements, 0), a)
    unify(part(elements, 1), b)
    unify(each(elements), c)


def _a_tuple_with_a_list(a: Cell, b: Cell, c: Cell) -> None:
    pair, elements = Cell(), Cell()
    unify(part(pair, 0), a)
    unify(part(pair, 1), b)
    unify(part(elements, EACH), c)
    unify(pair, elements)


def _a_value_with_a_part_of_itself(a: Cell, b: Cell, c: Cell) -> None:
    unify(part(a, "next"), b)
    unify(part(b, "next"), c)
    unify(a, c)


@pytest.mark.parametrize(
    ("connect", "classes"),
    [
        (lambda *_: None, 3),
        (_three_in_a_row, 1),
        (_by_the_same_part, 2),
        (_by_other_parts, 3),
        (_as_a_tree, 1),
        (_as_a_list, 1),
        (_a_tuple_with_a_list, 1),
        (_a_value_with_a_part_of_itself, 1),
    ],
)
def test_how_many_classes_there_are(
    connect: Callable[[Cell, Cell, Cell], object], classes: int
) -> None:
    cells = Cell(), Cell(), Cell()
    connect(*cells)
    assert len({id(find(cell)) for cell in cells}) == classes


def test_a_part_of_an_output_is_an_output_by_its_path() -> None:
    output = add_made(Cell(), Point(CellRole.OUTPUT, AT))
    early = part(output, 0)
    assert _made(part(early, "loss")) == [(CellRole.OUTPUT, (0, "loss"))]
    add_made(output, Point(CellRole.ELSEWHERE, AT))
    assert _made(early) == [(CellRole.OUTPUT, (0,)), (CellRole.ELSEWHERE, (0,))]


@pytest.mark.parametrize("role", [CellRole.REPLICATE, CellRole.SHARD, CellRole.ROWS])
def test_what_is_laid_out_at_once_is_one_tree(role: CellRole) -> None:
    cell = Cell()
    inner = part(cell, "w")
    assert _same(inner, add_made(cell, Point(role, AT)))


def test_what_escapes_does_so_with_all_its_parts() -> None:
    cell, stranger = Cell(), Cell()
    early = part(part(cell, 0), "w")
    escape(cell, SAID)
    assert find(early).escapes == [SAID]
    assert part(cell, "late").escapes == [SAID]
    assert stranger.escapes == []


def test_a_part_that_escapes_leaves_the_others_alone() -> None:
    cell = Cell()
    first, second = part(cell, 0), part(cell, 1)
    escape(first, SAID)
    assert find(cell).escapes == find(second).escapes == []
    collapse(cell)
    assert find(second).escapes == [SAID]


@pytest.mark.parametrize("first", [iterate, collapse])
@pytest.mark.parametrize("then", [iterate, collapse])
def test_the_rows_of_a_tree_are_seen_where_it_is_iterated_over(
    first: Callable[[Cell], Cell], then: Callable[[Cell], Cell]
) -> None:
    cell = Cell()
    first(cell)
    then(cell)
    assert (ITERATED in find(cell).escapes) == (first is not then)


def test_a_list_of_trees_is_used_tree_by_tree() -> None:
    elements, element = Cell(), Cell()
    unify(part(elements, EACH), element)
    assert _same(tree(elements), element)
    assert find(element).collapsed
    assert not find(elements).collapsed
