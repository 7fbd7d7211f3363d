"""Classes of values: what is known of two that become one, of their parts and of their elements."""

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
)
from shardlift.source.file import File
from shardlift.source.project import Project
from shardlift.source.text import Source

PATH = "m.py"
FILE: File = Project.of(Source(PATH, "x")).file(PATH)
AT = NodePlace(FILE, ast.Name("x"))
SAID = Escape(AT, "is given away")


def _same(one: Cell, other: Cell) -> bool:
    return one.root() is other.root()


def _made(cell: Cell) -> list[tuple[CellRole, tuple[int | str, ...]]]:
    return [(point.role, point.path) for point in cell.root().made]


def test_two_values_become_one_class_with_all_that_is_known_of_them() -> None:
    one, other = Cell(), Cell()
    one.add_made(Point(CellRole.REPLICATE, AT))
    other.add_use(Point(CellRole.FIRST, AT))
    other.escape(SAID)
    both = one.unify(other)
    assert _same(one, both)
    assert _same(other, both)
    assert _made(both) == [(CellRole.REPLICATE, ())]
    assert [use.role for use in both.uses] == [CellRole.FIRST]
    assert both.escaped == SAID


@pytest.mark.parametrize(
    ("connect", "classes"),
    [
        ("", 3),
        ("a.unify(b); b.unify(c)", 1),
        ("d.part('k').unify(a); e.part('k').unify(b); d.part(1).unify(c); d.unify(e)", 2),
        ("d.part(0).unify(a); e.part(1).unify(b); e.part('k').unify(c); d.unify(e)", 3),
        ("d.part(0).unify(a); d.part('k').unify(b); d.collapse(); d.part(7).unify(c)", 1),
        ("d.part(0).unify(a); d.part(1).unify(b); d.each().unify(c)", 1),  # a list
        ("d.part(0).unify(a); d.part(1).unify(b); e.part(EACH).unify(c); d.unify(e)", 1),
        ("a.part('next').unify(b); b.part('next').unify(c); a.unify(c)", 1),
    ],
)
def test_how_many_classes_three_values_are_in(connect: str, classes: int) -> None:
    cells = {name: Cell() for name in "abcde"}
    exec(connect, {"EACH": EACH, **cells})
    assert len({id(cells[name].root()) for name in "abc"}) == classes


def test_a_part_of_an_output_is_an_output_by_its_path() -> None:
    output = Cell().add_made(Point(CellRole.OUTPUT, AT))
    early = output.part(0)
    assert _made(early.part("loss")) == [(CellRole.OUTPUT, (0, "loss"))]
    output.add_made(Point(CellRole.ELSEWHERE, AT))
    assert _made(early) == [(CellRole.OUTPUT, (0,)), (CellRole.ELSEWHERE, (0,))]


@pytest.mark.parametrize("role", [CellRole.REPLICATE, CellRole.SHARD, CellRole.ROWS])
def test_what_is_laid_out_at_once_is_one_tree(role: CellRole) -> None:
    cell = Cell()
    inner = cell.part("w")
    assert _same(inner, cell.add_made(Point(role, AT)))


def test_what_escapes_does_so_with_all_its_parts() -> None:
    cell, stranger = Cell(), Cell()
    early = cell.part(0).part("w")
    cell.escape(SAID)
    assert early.root().escaped == SAID
    assert cell.part("late").escaped == SAID
    assert stranger.escaped is None


def test_a_part_that_escapes_leaves_the_others_alone() -> None:
    cell = Cell()
    first, second = cell.part(0), cell.part(1)
    first.escape(SAID)
    assert cell.root().escaped is second.root().escaped is None
    cell.collapse()
    assert second.root().escaped == SAID


@pytest.mark.parametrize("first", [Cell.iterate, Cell.collapse])
@pytest.mark.parametrize("then", [Cell.iterate, Cell.collapse])
def test_the_rows_of_a_tree_are_seen_where_it_is_iterated_over(
    first: Callable[[Cell], Cell], then: Callable[[Cell], Cell]
) -> None:
    cell = Cell()
    first(cell)
    then(cell)
    assert (cell.root().escaped == ITERATED) == (first is not then)


def test_a_list_of_trees_is_used_tree_by_tree() -> None:
    elements, element = Cell(), Cell()
    elements.part(EACH).unify(element)
    assert _same(elements.tree(), element)
    assert element.root().collapsed
    assert not elements.root().collapsed
