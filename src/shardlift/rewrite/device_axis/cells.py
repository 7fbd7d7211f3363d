"""Cells: one per value of the program. Values that must have the same layout form a class.

The classes are kept by union-find. A cell may have parts: the elements of a tuple or dict
display, by their key, or all elements of a list or an iterator (`EACH`). Parts can have layouts
of their own, until the value is used as a whole tree: then they are in the same class.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardlift.rewrite.device_axis.global_sites import GlobalSite
    from shardlift.source.file import File

EACH = "*"
Key = int | str


@dataclass(frozen=True)
class NodePlace:
    """A node in its file."""

    file: File = field(repr=False)
    node: ast.AST

    def __str__(self) -> str:
        span = self.file.span(self.node)
        cell = f"cell {span.cell}:" if span.cell else ""
        return f"{self.file.path}:{cell}{span.line}"


class CellRole(StrEnum):
    """What a place does with values: the first six make them, the others use them."""

    REPLICATE = "replicate"  # one copy of a tree per device
    SHARD = "shard"  # a tree, split over the devices
    ROWS = "rows"  # one row per device, in another way
    OUTPUT = "output"  # of a pmapped function
    MAPPED = "mapped"  # a pmapped function itself
    ELSEWHERE = "elsewhere"  # not followed
    ARGUMENT = "argument"  # of a pmapped function
    FIRST = "first"  # the first row of every leaf
    INDEX = "index"  # `x[0]`


@dataclass(frozen=True)
class Escape:
    """A use that is not followed."""

    at: NodePlace | None
    why: str
    outside: bool = False  # of the files that are given

    def __str__(self) -> str:
        return f"{self.why}, at {self.at}" if self.at is not None else self.why


@dataclass(frozen=True, eq=False)
class Point:
    """A place that makes or uses the values of a class."""

    role: CellRole
    at: NodePlace
    inner: ast.expr | None = None  # the tree that it is given
    site: GlobalSite | None = None
    path: tuple[Key, ...] = ()  # of an output: which part
    position: int = 0  # of an argument
    why: Escape | None = None  # of ELSEWHERE: who else may set it
    types_numbers: bool = False  # of REPLICATE: Python numbers in the tree get a type


# The elements of an array are its rows, one per device.
ITERATED = Escape(None, "is iterated over as well as used as a whole")


class Cell:
    """A value. What is known of its class is kept in one cell of the class: see `find`."""

    __slots__ = ("collapsed", "escapes", "iterated", "link", "made", "parts", "uses")

    def __init__(self) -> None:
        """A value about which nothing is known yet."""
        self.link: Cell | None = None
        self.made: list[Point] = []
        self.uses: list[Point] = []
        self.escapes: list[Escape] = []
        self.parts: dict[Key, Cell] = {}
        self.collapsed = False  # it is one tree: its parts are in its class
        self.iterated = False  # its elements are read one after the other

    @property
    def points(self) -> list[Point]:
        """Every place that makes or uses the values."""
        return [*self.made, *self.uses]


# What may have parts with layouts of their own.
_WITH_PARTS = frozenset({CellRole.OUTPUT, CellRole.ELSEWHERE, CellRole.MAPPED})


def find(cell: Cell) -> Cell:
    """The cell that stands for the class of a cell."""
    while cell.link is not None:
        if cell.link.link is not None:
            cell.link = cell.link.link
        cell = cell.link
    return cell


def unify(one: Cell, other: Cell) -> Cell:
    """Make two values one class."""
    one, other = find(one), find(other)
    if one is other:
        return one
    if one.collapsed or other.collapsed or holds(one, other) or holds(other, one):
        collapse(one)
        collapse(other)
    keys = list({**one.parts, **other.parts})
    pairs = [(part(one, key), part(other, key)) for key in keys]
    one, other = find(one), find(other)
    if one is other:
        return one
    other.link = one
    one.made += other.made
    one.uses += other.uses
    one.escapes += [escape for escape in other.escapes if escape not in one.escapes]
    one.parts |= other.parts
    one.iterated |= other.iterated
    for left, right in pairs:
        unify(left, right)
    return _check_rows(one)


def inside(cell: Cell) -> Iterator[Cell]:
    """A value and all that is inside of it, each class once."""
    waiting, seen = [find(cell)], set[int]()
    while waiting:
        root = waiting.pop()
        if id(root) not in seen:
            seen.add(id(root))
            yield root
            waiting += map(find, root.parts.values())


def holds(outer: Cell, inner: Cell) -> bool:
    """Whether a value is somewhere inside another, as when a loop descends into a tree."""
    return any(root is inner for part in outer.parts.values() for root in inside(part))


def collapse(cell: Cell) -> Cell:
    """Make a value one tree: all its parts are in its class."""
    cell = find(cell)
    if cell.collapsed:
        return cell
    cell.collapsed = True
    parts, cell.parts = cell.parts, {}
    for inner in parts.values():
        unify(cell, inner)
    return _check_rows(cell)


def _check_rows(cell: Cell) -> Cell:
    cell = find(cell)
    if cell.collapsed and cell.iterated:
        escape(cell, ITERATED)
    return cell


def iterate(cell: Cell) -> Cell:
    """Note that a value is iterated over."""
    cell = find(cell)
    cell.iterated = True
    return _check_rows(cell)


def each(cell: Cell) -> Cell:
    """An element of a value that is iterated over."""
    return part(iterate(cell), EACH)


def tree(cell: Cell) -> Cell:
    """The cell of the leaves of a value that is used as a tree, or of a list of such trees."""
    cell = find(cell)
    while set(cell.parts) == {EACH} and not cell.made:
        cell = find(cell.parts[EACH])
    return collapse(cell)


def has_elements(cell: Cell) -> bool:
    """Whether a value is known to be a tuple or a list."""
    return any(key == EACH or isinstance(key, int) for key in find(cell).parts)


def part(cell: Cell, key: Key) -> Cell:
    """An element of a value, by its key or attribute. It inherits what is known of the value."""
    cell = find(cell)
    if cell.collapsed:
        return cell
    if key not in cell.parts:
        if EACH in cell.parts and key != EACH:
            return part(cell, EACH)
        if key == EACH and cell.parts:  # elements that had keys are those of a list
            parts, cell.parts = cell.parts, {}
            for inner in parts.values():
                unify(part(cell, EACH), inner)
            return part(cell, EACH)
        inner = cell.parts[key] = Cell()
        inner.escapes = list(cell.escapes)
        for made in cell.made:
            inner.made.append(replace(made, path=(*made.path, key)))
    return find(cell.parts[key])


def add_made(cell: Cell, made: Point) -> Cell:
    """Note a place that makes values of a class."""
    cell = find(cell)
    if made.role not in _WITH_PARTS:
        cell = collapse(cell)
    cell.made.append(made)
    if not cell.collapsed:
        for key, inner in list(cell.parts.items()):
            add_made(inner, replace(made, path=(*made.path, key)))
    return find(cell)


def add_use(cell: Cell, use: Point) -> Cell:
    """Note a place that uses a value as a tree."""
    cell = tree(cell)
    cell.uses.append(use)
    return cell


def escape(cell: Cell, use: Escape) -> None:
    """Note that a value, with all its parts, is used where it is not followed."""
    for root in inside(cell):
        if use not in root.escapes and len(root.escapes) < 8:
            root.escapes.append(use)
