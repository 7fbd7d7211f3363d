"""Cells: one per value of the program. Values that must have the same layout form a class.

The classes are those of a union-find. A cell may have parts: the elements of a tuple or dict
display, by their key, or those of a list or an iterator (`EACH`). Parts can have layouts of their
own, until the value is used as a whole tree: then they are in the same class.

With `open_trees`, the named fields of a tree stay apart until all files were visited, so that the
fields of a state can have layouts of their own.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardlift.migrate.device_axis.sites import Site
    from shardlift.source.file import File

EACH = "*"
Key = int | str


@dataclass(frozen=True)
class Place:
    """A node in its file."""

    file: File = field(repr=False)
    node: ast.AST

    def __str__(self) -> str:
        span = self.file.span(self.node)
        cell = f"cell {span.cell}:" if span.cell else ""
        return f"{self.file.path}:{cell}{span.line}"


class Role(StrEnum):
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
    METRICS = "metrics"  # flax's get_metrics
    PREFETCH = "prefetch"  # put on devices ahead of time


@dataclass(frozen=True)
class Escape:
    """A use that is not followed."""

    at: Place | None
    why: str
    outside: bool = False  # of the files that are given

    def __str__(self) -> str:
        return f"{self.why}, at {self.at}" if self.at is not None else self.why


@dataclass(frozen=True)
class Padding:
    """flax's `pad_shard_unpad`: gives its arguments one row per device, and takes them back."""

    passed_on: tuple[int, ...]  # arguments that it leaves as they are
    returns_rows: bool  # it leaves the output as it is


@dataclass(frozen=True, eq=False)
class Point:
    """A place that makes or uses the values of a class."""

    role: Role
    at: Place
    inner: ast.expr | None = None  # the tree that it is given
    site: Site | None = None
    path: tuple[Key, ...] = ()  # of an output: which part
    position: int = 0  # of an argument
    why: Escape | None = None  # of ELSEWHERE: who else may set it
    padding: Padding | None = None  # of MAPPED: what pads its arguments
    counts_all: bool = True  # of REPLICATE: False if perhaps on some of the devices only
    of_state: bool = False  # it is about the state that the value is a field of


# The elements of an array are its rows, one per device.
ITERATED = Escape(None, "is iterated over as well as used as a whole")


class Cell:
    """A value. What is known of its class is kept in one cell of the class: see `find`."""

    __slots__ = ("collapsed", "escapes", "is_open", "iterated", "link", "made", "parts", "uses")

    def __init__(self) -> None:
        """A value of which nothing is known yet."""
        self.link: Cell | None = None
        self.made: list[Point] = []
        self.uses: list[Point] = []
        self.escapes: list[Escape] = []
        self.parts: dict[Key, Cell] = {}
        self.collapsed = False  # it is one tree: its parts are in its class, unless it is open
        self.is_open = False  # its named fields are apart for now
        self.iterated = False  # its elements are read one after the other

    @property
    def points(self) -> list[Point]:
        """Every place that makes or uses the values."""
        return [*self.made, *self.uses]


# What may have parts with layouts of their own.
_WITH_PARTS = frozenset({Role.OUTPUT, Role.ELSEWHERE, Role.MAPPED})
_open: ContextVar[list[Cell] | None] = ContextVar("open", default=None)


@contextlib.contextmanager
def open_trees() -> Iterator[list[Cell]]:
    """Keep the named fields of trees apart; gives the trees, which are to be flattened later."""
    trees: list[Cell] = []
    token = _open.set(trees)
    try:
        yield trees
    finally:
        _open.reset(token)


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
        _make_trees(one, other)
        one, other = find(one), find(other)
        if one is other:
            return one
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


def _make_trees(one: Cell, other: Cell) -> None:
    """Make each of two values one tree, which is open only if both are."""
    is_inside = holds(one, other) or holds(other, one)
    if is_inside or collapse(one).is_open != collapse(other).is_open:
        flatten(one)
        flatten(other)


def holds(outer: Cell, inner: Cell) -> bool:
    """Whether a value is somewhere inside another, as when a loop descends into a tree."""
    waiting, seen = [find(part) for part in outer.parts.values()], set[int]()
    while waiting:
        one = waiting.pop()
        if one is inner:
            return True
        if id(one) not in seen:
            seen.add(id(one))
            waiting += [find(part) for part in one.parts.values()]
    return False


def _to_list(cell: Cell) -> None:
    """Treat elements that had keys as the elements of a list."""
    parts, cell.parts = cell.parts, {}
    for inner in parts.values():
        unify(part(cell, EACH), inner)


def _is_field(key: Key) -> bool:
    return isinstance(key, str) and key != EACH


def collapse(cell: Cell) -> Cell:
    """Make a value one tree: all its parts have its layout. Its fields may stay apart for now."""
    cell = find(cell)
    if cell.collapsed:
        return cell
    trees = _open.get()
    if trees is None or not all(map(_is_field, cell.parts)):
        return flatten(cell)
    cell.collapsed = cell.is_open = True
    trees.append(cell)
    return _check_rows(cell)


def flatten(cell: Cell) -> Cell:
    """Make a value and all its parts one class, with its fields."""
    cell = find(cell)
    if cell.collapsed and not cell.is_open:
        return cell
    cell.collapsed, cell.is_open = True, False
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
    is_list = set(cell.parts) == {EACH} and not cell.made
    while set(cell.parts) == {EACH} and not cell.made:
        cell = find(cell.parts[EACH])
    return flatten(cell) if is_list else collapse(cell)


def part(cell: Cell, key: Key) -> Cell:
    """An element of a value, by its key or attribute. It inherits what is known of the value."""
    cell = find(cell)
    if cell.collapsed and not (cell.is_open and _is_field(key)):
        return flatten(cell)
    if key not in cell.parts:
        if EACH in cell.parts and key != EACH:
            return part(cell, EACH)
        if key == EACH and cell.parts:
            _to_list(cell)
            if key in cell.parts:
                return find(cell.parts[key])
        inner = cell.parts[key] = Cell()
        inner.escapes = list(cell.escapes)
        for made in cell.made if not cell.is_open else ():
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


def escape(cell: Cell, said: Escape) -> None:
    """Note that a value, with all its parts, is used where it is not followed."""
    waiting, seen = [find(cell)], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if said not in one.escapes and len(one.escapes) < 8:
            one.escapes.append(said)
        waiting += [find(inner) for inner in one.parts.values()]
