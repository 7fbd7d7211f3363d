"""One array in two layouts: stacked (n, b, ...), global (n * b, ...), one copy (...) or n of them.

Stacking along an axis and joining along it give the same bytes in C order, and so the same digest.
Of copies only their `root` is kept: the array without leading axes along which all rows are the
same.
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
Axes = tuple[int | None, int | None]  # of the devices, before and after


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
    axis = axis or 0
    moved = (*shape[axis : axis + 1], *shape[:axis], *shape[axis + 1 :])
    for k in range(len(moved) + 1):
        if math.prod(moved[k:]) == least.size:
            rows = np.broadcast_to(least.reshape(moved[k:]), moved)
            return np.moveaxis(rows, 0, axis) if axis else rows
    raise ValueError(f"{least.size} elements are no root of an array of shape {shape}")


def bits_of(array: Array) -> Array:
    """The bytes of an array, in C order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def same_digest(before: str, after: str) -> bool:
    """Are the bytes equal, or is one array several copies of the other?"""
    return not {*before.split("/")}.isdisjoint(after.split("/"))


def same_arrays(before: Sequence[str], after: Sequence[str]) -> bool:
    """Do two lists of digests stand for the same arrays, in any layout and order?"""

    def known(digests: Sequence[str], others: set[str]) -> bool:
        return all(not digest or set(digest.split("/")) & others for digest in digests)

    return known(before, digest_parts(after)) and known(after, digest_parts(before))


def digest_parts(digests: Sequence[str]) -> set[str]:
    """The digests of arrays, and of the arrays that they are copies of."""
    return {part for digest in digests for part in digest.split("/")}


# ---- shapes


class LayoutChange(StrEnum):
    """How two shapes hold the same array."""

    SAME = "same"
    JOINED = "joined"  # stacked along an axis, or joined along it
    COPIES = "copies"  # one value, or one for each device


def layout_of(
    before: Shape, after: Shape, axes: Axes = (None, None), devices: int = 0
) -> LayoutChange | None:
    """How two shapes hold the same array.

    Only the device axis may be joined with the next axis, or left out. ``axes`` has it for both
    sides; by default it is the first axis. Nested maps have several, with ``devices`` in all.

    >>> layout_of((8, 4, 3), (32, 3))
    <LayoutChange.JOINED: 'joined'>
    >>> layout_of((8, 4, 3), (8, 12))
    """
    if before == after:
        return LayoutChange.SAME
    more, fewer, axis = _by_length(before, after, axes)
    for k in _device_axes(more, axis):
        most = next((m for m in range(1, len(more)) if math.prod(more[k : k + m]) == devices), 1)
        for end in range(k + 2, k + most + 2):
            if (*more[:k], math.prod(more[k:end]), *more[end:]) == fewer:
                return LayoutChange.JOINED
    return None if _dropped_axis(more, fewer, axis) is None else LayoutChange.COPIES


def _by_length(before: Shape, after: Shape, axes: Axes) -> tuple[Shape, Shape, int | None]:
    """The shape with more axes, the other one, and the axis of the devices of the first."""
    is_longer = len(after) > len(before)
    return (after, before, axes[1]) if is_longer else (before, after, axes[0])


def _device_axes(shape: Shape, axis: int | None) -> list[int]:
    """The axes that may be the device axis."""
    return [k for k in dict.fromkeys((axis or 0, 0)) if k < len(shape)]


def _dropped_axis(more: Shape, fewer: Shape, axis: int | None) -> int | None:
    """The axis of ``more`` without which it is ``fewer``."""
    places = _device_axes(more, axis)
    return next((k for k in places if (*more[:k], *more[k + 1 :]) == fewer), None)


def together(
    before: Array, after: Array, axes: Axes = (None, None)
) -> tuple[Array, Array, int | None]:
    """Bring both arrays to the layout with more axes; also returns the axis of the rows."""
    axis = axes[0] if axes[0] is not None else axes[1]
    if before.shape == after.shape:
        return before, after, axis
    if before.size == after.size:
        if before.ndim >= after.ndim:
            return before, after.reshape(before.shape), axes[0]
        return before.reshape(after.shape), after, axes[1]
    more, fewer, axis = _by_length(before.shape, after.shape, axes)
    copies = _dropped_axis(more, fewer, axis)
    assert copies is not None, "only arrays whose layouts fit are compared"
    left, right = (
        x if x.shape == more else np.broadcast_to(np.expand_dims(x, copies), more)
        for x in (before, after)
    )
    return left, right, copies


def numpy_dtype(name: str) -> Any:
    """The dtype of a name; for keys, the dtype of their data.

    >>> numpy_dtype("float32"), numpy_dtype("key<fry>")
    (dtype('float32'), dtype('uint32'))
    """
    if name.startswith("key<"):
        return np.dtype(np.uint32)
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # a dependency of JAX, for bfloat16, float8 and others

        return np.dtype(getattr(ml_dtypes, name))
