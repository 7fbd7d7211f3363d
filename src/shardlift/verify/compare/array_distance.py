"""The distance between two arrays of the same shape: in bits, in ulps, and relative."""

import contextlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardlift.capture.layouts import Array, bits_of


@dataclass(frozen=True)
class Distance:
    """The distance between two arrays. Integers, booleans and keys have no ulps."""

    elements: int  # the number of elements whose bits differ
    size: int
    ulps: int | None = None  # at the worst place; None if not finite or not floats
    relative: float = 0.0  # the largest difference, relative to the largest number
    place: tuple[int, ...] = ()  # the index of the worst element
    before: str = ""  # the values of that element
    after: str = ""
    rounding: float | None = None  # the largest difference, in ulps of the largest number

    @property
    def identical(self) -> bool:
        """Whether all bits are equal."""
        return self.elements == 0


@dataclass(frozen=True)
class Tolerance:
    """The tolerance for "close". An element passes if it is within any of the bounds."""

    ulps: int = 0
    rtol: float = 0.0  # relative to the largest number in the array
    atol: float = 0.0
    rounding: int = 0  # in ulps of the largest number in the array, whatever its type

    def __bool__(self) -> bool:
        return bool(self.ulps or self.rtol or self.atol or self.rounding)


# What another way to fuse the same operations may change: XLA rounds as it fuses. The sums of a
# step have other orders then, and an element that is nearly 0 may lose more of its own digits.
ROUNDING = Tolerance(rounding=8)


def is_float(dtype: Any) -> bool:
    """Whether a dtype is a floating-point type, of numpy or of ml_dtypes."""
    return dtype.kind == "f" or (dtype.kind == "V" and float_info(dtype) is not None)


def float_info(dtype: Any) -> Any:
    """``bits``, ``eps`` and more of a floating-point type; None for other types."""
    with contextlib.suppress(ValueError):
        return np.finfo(dtype)
    with contextlib.suppress(ImportError, ValueError, TypeError):
        import ml_dtypes

        describe: Any = ml_dtypes.finfo
        return describe(dtype)
    return None


def distance(before: Array, after: Array) -> Distance:
    """The distance between two arrays of the same shape and dtype."""
    before, after = _real(before), _real(after)
    differs = _differs(before, after)
    count, size = int(differs.sum()), before.size
    if count == 0:
        return Distance(0, size)
    numbers = is_float(before.dtype)
    apart, largest = _apart(before, after)
    steps = ulps(before, after) if numbers else None
    order = np.where(differs, apart, -1.0) if steps is None else np.where(differs, steps, -1.0)
    worst = np.unravel_index(int(np.argmax(order)), before.shape)
    far = float(apart[differs].max())
    return Distance(
        count,
        size,
        None if steps is None or not math.isfinite(order[worst]) else int(order[worst]),
        far / largest if largest else math.inf,
        tuple(int(k) for k in worst),
        str(before[worst]),
        str(after[worst]),
        far / largest / float(float_info(before.dtype).eps) if numbers and largest else None,
    )


def within(before: Array, after: Array, tolerance: Tolerance) -> bool:
    """Whether every element is within the tolerance."""
    before, after = _real(before), _real(after)
    passed = ~_differs(before, after)
    if is_float(before.dtype):
        apart, largest = _apart(before, after)
        passed |= ulps(before, after) <= tolerance.ulps
        epsilon = float(float_info(before.dtype).eps)
        relative = max(tolerance.rtol, tolerance.rounding * epsilon)
        passed |= apart <= max(tolerance.atol, relative * largest)
    return bool(passed.all())


def _real(array: Array) -> Array:
    """The array; of complex numbers, their parts along one more axis."""
    if array.dtype.kind != "c":
        return array
    return np.ascontiguousarray(array)[..., None].view(array.real.dtype)


def _differs(before: Array, after: Array) -> Any:
    """Whether the bits of each element differ. NaNs with the same bits are equal."""
    width = before.dtype.itemsize
    left, right = (bits_of(x).reshape(before.size, width) for x in (before, after))
    return (left != right).any(axis=1).reshape(before.shape)


def wide(array: Array) -> Array:
    """The array as doubles, without warnings for signalling NaNs."""
    with np.errstate(invalid="ignore"):
        return array.astype(np.float64)


def _apart(before: Array, after: Array) -> tuple[Any, float]:
    """The absolute difference of each element, and the largest finite number before."""
    left, right = wide(before), wide(after)
    with np.errstate(invalid="ignore", over="ignore"):
        apart = np.abs(left - right)
        apart = np.where(np.isnan(left) & np.isnan(right) | (left == right), 0.0, apart)
        apart = np.where(np.isnan(apart), np.inf, apart)
        finite = np.abs(left[np.isfinite(left)])
    return apart, float(finite.max()) if finite.size else 0.0


def ulps(before: Array, after: Array) -> Any:
    """The number of floating-point numbers between two elements; inf if one of them is NaN.

    The distance between 0.0 and -0.0, and between two NaNs, is 0.

    >>> x = np.float32([1.0, -0.0, np.nan])
    >>> ulps(x, np.float32([np.nextafter(np.float32(1), np.float32(2)), 0.0, 1.0])).tolist()
    [1.0, 0.0, inf]
    """
    left, right = _ordered(before), _ordered(after)
    # Both may use all 64 bits, so the smaller one is subtracted from the larger one.
    steps = np.where(left > right, left - right, right - left).astype(np.uint64).astype(np.float64)
    nan_left, nan_right = np.isnan(wide(before)), np.isnan(wide(after))
    steps = np.where(nan_left & nan_right, 0.0, np.where(nan_left != nan_right, np.inf, steps))
    infinite = np.isinf(wide(before)) != np.isinf(wide(after))
    return np.where(infinite & ~nan_left & ~nan_right, np.inf, steps)


def _ordered(array: Array) -> Any:
    """Floating-point numbers as integers in the same order."""
    width = array.dtype.itemsize
    bits = np.ascontiguousarray(array).view(f"u{width}").reshape(array.shape).astype(np.uint64)
    if array.dtype.name == "float8_e8m0fnu":  # has no sign
        return bits.astype(np.int64)
    sign = np.uint64(1 << (int(float_info(array.dtype).bits) - 1))
    magnitude = (bits & (sign - np.uint64(1))).astype(np.int64)
    return np.where(bits & sign, -magnitude, magnitude)
