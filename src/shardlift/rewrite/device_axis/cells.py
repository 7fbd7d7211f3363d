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


# What may have parts with layouts of their own.
_WITH_PARTS = frozenset({CellRole.OUTPUT, CellRole.ELSEWHERE, CellRole.MAPPED})


class Cell:
    """A value. What is known of its class is kept in one cell of the class, its root."""

    __slots__ = ("collapsed", "escaped", "iterated", "link", "made", "parts", "uses")

    def __init__(self) -> None:
        """A value about which nothing is known yet."""
        self.link: Cell | None = None
        self.made: list[Point] = []
        self.uses: list[Point] = []
        self.escaped: Escape | None = None  # the first use that is not followed
        self.parts: dict[Key, Cell] = {}
        self.collapsed = False  # it is one tree: its parts are in its class
        self.iterated = False  # its elements are read one after the other

    @property
    def points(self) -> list[Point]:
        """Every place that makes or uses the values."""
        return [*self.made, *self.uses]

    def root(self) -> Cell:
        """The cell that stands for the class."""
        cell = self
        while cell.link is not None:
            if cell.link.link is not None:
                cell.link = cell.link.link
            cell = cell.link
        return cell

    def unify(self, other: Cell) -> Cell:
        """Make two values one class."""
        one, other = self.root(), other.root()
        if one is other:
            return one
        # A value that is inside of the other, as when a loop descends into a tree, is one with it.
        nested = (
            any(x is part for part in list(y.inside())[1:]) for x, y in ((one, other), (other, one))
        )
        if one.collapsed or other.collapsed or any(nested):
            one.collapse()
            other.collapse()
        pairs = [(one.part(key), other.part(key)) for key in {**one.parts, **other.parts}]
        one, other = one.root(), other.root()
        if one is other:
            return one
        other.link = one
        one.made += other.made
        one.uses += other.uses
        one.escaped = one.escaped or other.escaped
        one.iterated |= other.iterated
        for left, right in pairs:
            left.unify(right)
        return one._with_rows()

    def inside(self) -> Iterator[Cell]:
        """The value and all that is inside of it, each class once."""
        waiting, seen = [self.root()], set[int]()
        while waiting:
            root = waiting.pop()
            if id(root) not in seen:
                seen.add(id(root))
                yield root
                waiting += [part.root() for part in root.parts.values()]

    def collapse(self) -> Cell:
        """Make the value one tree: all its parts are in its class."""
        cell = self.root()
        if cell.collapsed:
            return cell
        cell.collapsed = True
        parts, cell.parts = cell.parts, {}
        for inner in parts.values():
            cell.unify(inner)
        return cell._with_rows()

    def _with_rows(self) -> Cell:
        """The rows of one tree are seen where it is iterated over."""
        cell = self.root()
        if cell.collapsed and cell.iterated:
            cell.escape(ITERATED)
        return cell

    def iterate(self) -> Cell:
        """Note that the value is iterated over."""
        self.root().iterated = True
        return self._with_rows()

    def each(self) -> Cell:
        """An element of the value, which is iterated over."""
        return self.iterate().part(EACH)

    def tree(self) -> Cell:
        """The leaves of the value, which is used as a tree, or is a list of such trees."""
        cell = self.root()
        while set(cell.parts) == {EACH} and not cell.made:
            cell = cell.parts[EACH].root()
        return cell.collapse()

    def has_elements(self) -> bool:
        """Whether the value is known to be a tuple or a list."""
        return any(key == EACH or isinstance(key, int) for key in self.root().parts)

    def part(self, key: Key) -> Cell:
        """An element, by its key or attribute. It inherits what is known of the value."""
        cell = self.root()
        if cell.collapsed:
            return cell
        if key not in cell.parts:
            if EACH in cell.parts and key != EACH:
                return cell.part(EACH)
            if key == EACH and cell.parts:  # elements that had keys are elements of a list
                parts, cell.parts = cell.parts, {}
                for inner in parts.values():
                    cell.part(EACH).unify(inner)
                return cell.part(EACH)
            inner = cell.parts[key] = Cell()
            inner.escaped = cell.escaped
            inner.made = [replace(made, path=(*made.path, key)) for made in cell.made]
        return cell.parts[key].root()

    def add_made(self, made: Point) -> Cell:
        """Note a place that makes values of the class."""
        cell = self.root() if made.role in _WITH_PARTS else self.collapse()
        cell.made.append(made)
        if not cell.collapsed:
            for key, inner in list(cell.parts.items()):
                inner.add_made(replace(made, path=(*made.path, key)))
        return cell.root()

    def add_use(self, use: Point) -> Cell:
        """Note a place that uses the value as a tree."""
        cell = self.tree()
        cell.uses.append(use)
        return cell

    def escape(self, use: Escape) -> None:
        """Note that the value, with all its parts, is used where it is not followed."""
        for root in self.inside():
            root.escaped = root.escaped or use
