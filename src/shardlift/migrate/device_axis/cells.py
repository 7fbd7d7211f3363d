"""Cells: values of the program that must all have the same layout, as classes of a union-find.

A cell may have parts: the elements of a tuple or dict that is written out (by key), or those of a
list or an iterator (`EACH`). Parts can have layouts of their own. Where a value is used as a
whole tree its parts become one class with it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace
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


@dataclass(frozen=True, eq=False)
class Made:
    """Where values of a class come from.

    `replicate`, `shard`: with the tree that is given to it. `rows`: stacked, one a device.
    `output`: of a pmapped function, by its path. `mapped`: a pmapped function itself.
    `elsewhere`: not followed.
    """

    kind: str
    at: Place
    inner: ast.expr | None = None
    site: Site | None = None
    path: tuple[Key, ...] = ()
    why: Escape | None = None  # of `elsewhere`: who else may set it


@dataclass(frozen=True, eq=False)
class Use:
    """A use that is understood.

    `argument` of a pmapped function; `first`: the first row of every leaf; `index`: `x[0]`;
    `metrics`: flax's get_metrics; `prefetch`: put on devices ahead of time.
    """

    kind: str
    at: Place
    inner: ast.expr | None = None
    site: Site | None = None
    position: int = 0


@dataclass(frozen=True)
class Escape:
    """A use that is not followed."""

    at: Place | None
    why: str

    def __str__(self) -> str:
        return f"{self.why}, at {self.at}" if self.at is not None else self.why


# Of an array that would be its rows, one on each device.
ITERATED = Escape(None, "is iterated over as well as used as a whole")


class Cell:
    """A value; `find` gives the representative of its class, which knows the rest."""

    __slots__ = ("collapsed", "escapes", "iterated", "link", "made", "parts", "uses")

    def __init__(self) -> None:
        """A value of which nothing is known yet."""
        self.link: Cell | None = None
        self.made: list[Made] = []
        self.uses: list[Use] = []
        self.escapes: list[Escape] = []
        self.parts: dict[Key, Cell] = {}
        self.collapsed = False  # it is one tree: its parts are in its class
        self.iterated = False  # its elements are read one after the other


_STRUCTURAL = frozenset({"output", "elsewhere", "mapped"})


def find(cell: Cell) -> Cell:
    """The representative of a cell's class."""
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
    if one.collapsed or other.collapsed or _holds(one, other) or _holds(other, one):
        collapse(one)
        collapse(other)
        one, other = find(one), find(other)
        if one is other:
            return one
    elif (EACH in one.parts) != (EACH in other.parts):
        _to_list(one if other.parts.get(EACH) else other)
        one, other = find(one), find(other)
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
    return _checked(one)


def _holds(outer: Cell, inner: Cell) -> bool:
    """Whether a value is somewhere inside another, as in a tree that is walked down in a loop."""
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
    """Elements that were told apart by key, as those of a list."""
    parts, cell.parts = cell.parts, {}
    for inner in parts.values():
        unify(part(cell, EACH), inner)


def collapse(cell: Cell) -> Cell:
    """Make a value one tree: what it is made of has its layout."""
    cell = find(cell)
    if cell.collapsed:
        return cell
    cell.collapsed = True
    parts, cell.parts = cell.parts, {}
    for inner in parts.values():
        unify(cell, inner)
    return _checked(cell)


def _checked(cell: Cell) -> Cell:
    cell = find(cell)
    if cell.collapsed and cell.iterated:
        escape(cell, ITERATED)
    return cell


def iterate(cell: Cell) -> Cell:
    """Note that the elements of a value are read one after the other."""
    cell = find(cell)
    cell.iterated = True
    return _checked(cell)


def each(cell: Cell) -> Cell:
    """An element of a value that is iterated over."""
    return part(iterate(cell), EACH)


def tree(cell: Cell) -> Cell:
    """The class of the leaves of a value that is used as a tree; a list stays a list of them."""
    cell = find(cell)
    while set(cell.parts) == {EACH} and not cell.made:
        cell = find(cell.parts[EACH])
    return collapse(cell)


def part(cell: Cell, key: Key) -> Cell:
    """An element of a value, by its key or attribute; what is known of the whole holds of it."""
    cell = find(cell)
    if cell.collapsed:
        return cell
    if key not in cell.parts:
        if EACH in cell.parts and key != EACH:
            return part(cell, EACH)
        if key == EACH and cell.parts:
            _to_list(cell)
            if key in cell.parts:
                return find(cell.parts[key])
        inner = cell.parts[key] = Cell()
        inner.escapes = list(cell.escapes)
        for made in cell.made:
            path = (*made.path, key)
            inner.made.append(replace(made, path=path))
    return find(cell.parts[key])


def add_made(cell: Cell, made: Made) -> Cell:
    """Note one more place that values of a class come from."""
    cell = find(cell)
    if made.kind not in _STRUCTURAL:
        cell = collapse(cell)
    cell.made.append(made)
    if not cell.collapsed:
        for key, inner in list(cell.parts.items()):
            path = (*made.path, key)
            add_made(inner, replace(made, path=path))
    return find(cell)


def add_use(cell: Cell, use: Use) -> Cell:
    """Note a use of a value as a tree."""
    cell = tree(cell)
    cell.uses.append(use)
    return cell


def escape(cell: Cell, said: Escape) -> None:
    """Note that a value goes where it is not followed, with all its parts."""
    waiting, seen = [find(cell)], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if said not in one.escapes and len(one.escapes) < 8:
            one.escapes.append(said)
        waiting += [find(inner) for inner in one.parts.values()]
