"""One array in two layouts: stacked (n, b, ...), global (n * b, ...), one copy (...) or n of them.

Stacking along an axis and joining along it give the same bytes in C order, so a digest of the
bytes does not tell the two apart. Copies are told apart by a second digest, that of the `root`:
the array without its leading axis wherever all its rows are the same.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


def digest_of(array: Array, axis: int | None = None) -> str:
    """The digest of an array: of its bytes, and of its root if that is smaller.

    >>> one, eight = np.arange(3.0), np.stack([np.arange(3.0)] * 8)
    >>> digest_of(eight).partition("/")[2] == digest_of(one)
    True
    """
    whole = _hash(array)
    least = root(array, axis)
    return whole if least.size == array.size else f"{whole}/{_hash(least)}"


def root(array: Array, axis: int | None = None) -> Array:
    """The array without its leading axes along which all rows are the same, bit by bit.

    ``axis`` counts as the first one.
    """
    rows = np.ascontiguousarray(np.moveaxis(array, axis, 0) if axis else array)
    while rows.ndim and rows.shape[0] > 1 and rows.size:
        flat = bits_of(rows).reshape(rows.shape[0], -1)
        if not (flat[1:] == flat[:1]).all():
            break
        rows = rows[0]
    return rows


def from_root(least: Array, shape: Sequence[int], axis: int | None) -> Array:
    """Rebuild an array from its root."""
    shape = tuple(shape)
    if not axis:
        return np.broadcast_to(least.reshape(_ending(least, shape)), shape)
    moved = (shape[axis], *shape[:axis], *shape[axis + 1 :])
    rows = np.broadcast_to(least.reshape(_ending(least, moved)), moved)
    return np.moveaxis(rows, 0, axis)


def _ending(least: Array, shape: Shape) -> Shape:
    """The last axes of ``shape``, as many as the root has left."""
    for k in range(len(shape) + 1):
        if math.prod(shape[k:]) == least.size:
            return shape[k:]
    raise ValueError(f"{least.size} elements are no root of an array of shape {shape}")


def bits_of(array: Array) -> Array:
    """The bytes of an array, in C order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _hash(array: Array) -> str:
    return hashlib.sha256(bits_of(array).data).hexdigest()[:32]


def same_digest(before: str, after: str) -> bool:
    """Are the bytes equal, or is one array several copies of the other?"""
    whole, _, least = before.partition("/")
    other, _, other_least = after.partition("/")
    return whole == other or (least or whole) == (other_least or other)


def same_arrays(before: Sequence[str], after: Sequence[str]) -> bool:
    """Do two lists of digests stand for the same arrays, in any layout and order?"""

    def parts(digests: Sequence[str]) -> set[str]:
        return {part for digest in digests for part in digest.split("/")}

    def known(digests: Sequence[str], others: set[str]) -> bool:
        return all(not digest or set(digest.split("/")) & others for digest in digests)

    return known(before, parts(after)) and known(after, parts(before))


# ---- shapes


class LayoutChange(StrEnum):
    """How two shapes hold the same array."""

    SAME = "same"
    JOINED = "joined"  # stacked along an axis, or joined along it
    COPIES = "copies"  # one value, or one for each device


def layout_of(before: Shape, after: Shape) -> LayoutChange | None:
    """How two shapes hold the same array.

    >>> layout_of((8, 4, 3), (32, 3))
    <LayoutChange.JOINED: 'joined'>
    >>> layout_of((8, 3), (8, 4))
    """
    if before == after:
        return LayoutChange.SAME
    if math.prod(before) == math.prod(after) and (_joins(before, after) or _joins(after, before)):
        return LayoutChange.JOINED
    if _drops(before, after) is not None or _drops(after, before) is not None:
        return LayoutChange.COPIES
    return None


def _joins(split: Shape, joined: Shape) -> bool:
    """Is ``joined`` what ``split`` becomes when neighbouring axes are made one?"""
    wanted = [n for n in joined if n != 1]
    left = [n for n in split if n != 1]
    if 0 in split:
        return len(split) == len(joined) + 1 and _joined_once(split, joined)
    for size in wanted:
        product = 1
        while product < size and left:
            product *= left.pop(0)
        if product != size:
            return False
    return not left


def _joined_once(split: Shape, joined: Shape) -> bool:
    pairs = range(len(split) - 1)
    return any((*split[:k], split[k] * split[k + 1], *split[k + 2 :]) == joined for k in pairs)


def _drops(more: Shape, fewer: Shape) -> int | None:
    """The first axis of ``more`` without which it is ``fewer``."""
    if len(more) == len(fewer) + 1:
        for k in range(len(more)):
            if (*more[:k], *more[k + 1 :]) == fewer:
                return k
    return None


def together(
    before: Array, after: Array, axes: tuple[int | None, int | None] = (None, None)
) -> tuple[Array, Array, int | None]:
    """Bring both arrays to the layout with more rows; also returns the axis of the rows."""
    axis = axes[0] if axes[0] is not None else axes[1]
    if before.shape == after.shape:
        return before, after, axis
    if before.size == after.size and layout_of(before.shape, after.shape) is LayoutChange.JOINED:
        if before.ndim >= after.ndim:
            return before, after.reshape(before.shape), axes[0]
        return before.reshape(after.shape), after, axes[1]
    if before.ndim > after.ndim:
        copies = _copies_axis(before.shape, after.shape, axes[0])
        return before, np.broadcast_to(np.expand_dims(after, copies), before.shape), copies
    copies = _copies_axis(after.shape, before.shape, axes[1])
    return np.broadcast_to(np.expand_dims(before, copies), after.shape), after, copies


def _copies_axis(more: Shape, fewer: Shape, axis: int | None) -> int:
    if axis is not None and (*more[:axis], *more[axis + 1 :]) == fewer:
        return axis
    found = _drops(more, fewer)
    assert found is not None
    return found
