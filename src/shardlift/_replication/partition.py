"""Partitions of the devices by equal values: the lattice of the replication proof.

A *space* is the devices as the body of a map sees them: the points of a grid of named axes, counted
row by row. A value is described by a partition of the points: points in one class hold equal bits.
``None`` is the partition with one class, equal everywhere; nearly every value of a program has it,
and it is not stored. A partition can express groups and several axes: equal along ``j`` but not
along ``i``, equal within groups of four, and so on.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

Classes = tuple[int, ...]
Groups = tuple[tuple[int, ...], ...]


class Space(NamedTuple):
    """The named axes that are mapped somewhere in a program, and their sizes."""

    names: tuple[Hashable, ...] = ()
    sizes: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """The number of points."""
        return math.prod(self.sizes)

    def extend(self, names: Sequence[Hashable], sizes: Sequence[int]) -> Space:
        """The space inside a map over more axes: each point becomes several."""
        return Space((*self.names, *names), (*self.sizes, *sizes))


def partition(keys: Iterable[Hashable]) -> Classes | None:
    """The partition in which points with equal keys are in one class.

    >>> partition("abab"), partition("aaaa")
    ((0, 1, 0, 1), None)
    """
    seen: dict[Hashable, int] = {}
    classes = tuple([seen.setdefault(key, len(seen)) for key in keys])
    return classes if len(seen) > 1 else None


@functools.lru_cache(maxsize=4096)
def _meet(first: Classes, second: Classes) -> Classes | None:
    return partition(zip(first, second, strict=True))


def meet(first: Classes | None, second: Classes | None) -> Classes | None:
    """The partition of a function of two values: equal where both are.

    >>> meet((0, 0, 1, 1), (0, 1, 1, 1))
    (0, 1, 2, 2)
    """
    if first is second or second is None:
        return first
    return second if first is None else _meet(first, second)


@functools.lru_cache(maxsize=1024)
def coordinates(space: Space, names: tuple[Hashable, ...]) -> Classes | None:
    """The partition by the position along the axes ``names``: the classes of ``axis_index``.

    >>> coordinates(Space(("i", "j"), (2, 2)), ("j",))
    (0, 1, 0, 1)
    """
    at = [space.names.index(name) for name in names]
    points = itertools.product(*map(range, space.sizes))
    return partition(tuple(point[k] for k in at) for point in points)


@functools.lru_cache(maxsize=1024)
def groups_of(space: Space, names: tuple[Hashable, ...], given: Groups | None) -> Groups:
    """The points that take part in each collective over ``names``, in the collective's order.

    >>> groups_of(Space(("i", "j"), (2, 3)), ("i",), None)
    ((0, 3), (1, 4), (2, 5))
    >>> groups_of(Space(("i",), (4,)), ("i",), ((0, 2), (3, 1)))
    ((0, 2), (3, 1))
    """
    at = [space.names.index(name) for name in names]
    lines: dict[tuple[int, ...], dict[tuple[int, ...], int]] = {}
    for number, point in enumerate(itertools.product(*map(range, space.sizes))):
        rest = tuple(x for k, x in enumerate(point) if k not in at)
        lines.setdefault(rest, {})[tuple(point[k] for k in at)] = number
    ordered = [tuple(line[place] for place in sorted(line)) for line in lines.values()]
    if given is None:
        return tuple(ordered)
    return tuple(tuple(line[k] for k in group) for line in ordered for group in given)


def along(space: Space, classes: Classes | None) -> tuple[Hashable, ...]:
    """The axes along which a value is equal.

    >>> along(Space(("i", "j"), (2, 2)), (0, 0, 1, 1))
    ('j',)
    """
    if classes is None:
        return space.names
    names = []
    for name in space.names:
        lines = groups_of(space, (name,), None)
        if all(len({classes[point] for point in line}) == 1 for line in lines):
            names.append(name)
    return tuple(names)


def members(classes: Classes) -> Groups:
    """The points of each class.

    >>> members((0, 1, 0, 1))
    ((0, 2), (1, 3))
    """
    points: dict[int, list[int]] = {}
    for point, number in enumerate(classes):
        points.setdefault(number, []).append(point)
    return tuple(map(tuple, points.values()))


# ---- entering and leaving a map


def lift(
    classes: Classes | None, outer: Space, inner: Space, over: tuple[Hashable, ...]
) -> Classes | None:
    """A value of ``outer`` inside a map to ``inner``, split over the new axes ``over``."""
    below = inner.size // outer.size
    if classes is not None:
        classes = tuple(number for number in classes for _ in range(below))
    return meet(classes, coordinates(inner, over)) if over else classes


def project(classes: Classes | None, outer: Space, inner: Space) -> Classes | None:
    """A value of ``inner`` outside the map: equal where all its parts are."""
    if classes is None:
        return None
    below = inner.size // outer.size
    return partition(classes[k * below : (k + 1) * below] for k in range(outer.size))
