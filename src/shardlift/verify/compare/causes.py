"""What the difference between two arrays looks like; an empty text if like nothing known.

A text says what the numbers themselves show. What they only suggest is a `Suspicion`, which is
printed if another observation confirms it.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from shardlift.capture.layouts import Array, bits_of, root
from shardlift.verify.compare.array_distance import float_info, is_float, wide

NEARLY = 2e-3  # relative deviation up to which a factor is the number of devices
EXACTLY = 1e-5  # the same where only one number tells the factor
ROUNDED = 1e-4  # relative deviation of the difference that any other factor leaves
FEWEST = 3  # numbers that have to agree on a factor that is not the number of devices


class Suspicion(StrEnum):
    """A cause that the numbers suggest."""

    MISSING_REDUCTION = "a pmean or psum is missing"
    STATISTICS = (
        "a mean or variance (batch statistics) of the whole batch, where each device had its own, "
        "or vice versa"
    )


_DISAGREE = "the devices disagree where they agreed before"
_SHIFTED = "shifted and scaled differently on each device"
_SUSPICIONS = {
    _DISAGREE: Suspicion.MISSING_REDUCTION,
    _SHIFTED: Suspicion.STATISTICS,
}


def likely(
    before: Array, after: Array, axis: int | None, devices: int
) -> tuple[str, Suspicion | None]:
    """The likely cause, and what it suggests. Both arrays have the devices' rows along ``axis``."""
    checks = (_rows, _factor, _statistics, _not_numbers)
    text = next(filter(None, (check(before, after, axis, devices) for check in checks)), "")
    return text, _SUSPICIONS.get(text)


def _rows(before: Array, after: Array, axis: int | None, devices: int) -> str:
    if axis is None or axis >= before.ndim or before.shape[axis] < 2 or not before.size:
        return ""
    left, right = _row_bytes(before, axis, devices), _row_bytes(after, axis, devices)
    if len(set(left)) == 1 and len(set(right)) > 1:
        return _DISAGREE
    if sorted(left) == sorted(right) and len(set(left)) > 1:
        order = [left.index(row) for row in right]
        return f"the same rows in another order, {order}"
    if len(set(left)) > 1 and len(set(right)) == 1:
        return _one_for_all(before, after, axis, left, right)
    return ""


def _row_bytes(array: Array, axis: int, devices: int) -> list[bytes]:
    """The bytes of the part of each device."""
    rows = np.moveaxis(array, axis, 0)
    parts = devices if devices > 1 and rows.shape[0] % devices == 0 else rows.shape[0]
    return [bits_of(part).tobytes() for part in np.split(rows, parts)]


def _one_for_all(
    before: Array, after: Array, axis: int, left: list[bytes], right: list[bytes]
) -> str:
    if right[0] == left[0]:
        return (
            "all devices have the value of the first, where each device had its own: [0], "
            "out_specs=P() or out_axes=None for a value that differs between devices"
        )
    if is_float(before.dtype):
        rows, first = wide(np.moveaxis(before, axis, 0)), np.moveaxis(after, axis, 0)[0]
        for name, reduced in (("mean", rows.mean(0)), ("sum", rows.sum(0))):
            if np.allclose(reduced, wide(first), rtol=NEARLY, atol=0):
                return f"the {name} over the devices, where each device had its own value"
    return "every device has the same value, where each had its own"


def _factor(before: Array, after: Array, axis: int | None, devices: int) -> str:
    factor = confirmed_factor(before, after, axis, devices)
    return "" if factor is None else words_for(factor, devices)


def confirmed_factor(before: Array, after: Array, axis: int | None, devices: int) -> float | None:
    """The constant factor, unless so few numbers agree on it that it may be chance.

    Any number is a multiple of any other: one is enough for the number of devices only.
    """
    factor = constant_factor(before, after)
    numbers = root(before, axis)
    single = numbers.size == 1
    if factor is None or is_of_devices(factor, devices, EXACTLY if single else NEARLY):
        return factor
    if np.unique(np.abs(numbers)).size < FEWEST:
        return None
    rest = _rest(before, after, factor)
    rounding = 8 * float(float_info(before.dtype).eps) if is_float(before.dtype) else 0.0
    difference = abs(factor - 1)
    is_clear = difference > 100 * rounding
    return factor if is_clear and rest <= max(ROUNDED * difference, rounding) else None


def constant_factor(before: Array, after: Array) -> float | None:
    """The number by which ``before`` is multiplied to give ``after``, if there is one but 1."""
    if not is_float(before.dtype) and before.dtype.kind not in "iuc":
        return None
    left, right = numbers_of(before), numbers_of(after)
    if left.shape != right.shape or not left.size or not np.any(left):
        return None
    if not (np.isfinite(left).all() and np.isfinite(right).all()):
        return None
    scale = float((np.vdot(left, right) / np.vdot(left, left)).real)
    if not scale or abs(scale - 1) < ROUNDED:
        return None
    return (
        scale if _rest(before, after, scale) <= NEARLY * min(abs(scale), abs(scale - 1)) else None
    )


def _rest(before: Array, after: Array, scale: float) -> float:
    """What a factor leaves of the difference, relative to the largest number."""
    left, right = numbers_of(before), numbers_of(after)
    return float(np.abs(right - scale * left).max() / np.abs(left).max())


def numbers_of(array: Array) -> Array:
    """The elements as doubles, or as complex numbers of doubles."""
    return (array.astype(np.complex128) if array.dtype.kind == "c" else wide(array)).ravel()


def is_of_devices(factor: float, devices: int, tolerance: float = NEARLY) -> bool:
    """Whether a factor is the number of devices, its square, or the inverse of one of them."""
    powers = (float(devices) ** k for k in (1, -1, 2, -2))
    return devices > 1 and any(abs(factor / power - 1) < tolerance for power in powers)


def size_of(factor: float) -> str:
    """A factor in words: ``8.000 times too large``."""
    large = abs(factor) > 1
    return f"{factor:.3f} times too large" if large else f"{1 / factor:.3f} times too small"


def words_for(factor: float, devices: int) -> str:
    """A constant factor in words, and whether it is the number of devices."""
    size = size_of(factor)
    if not is_of_devices(factor, devices):
        return f"{size}, everywhere"
    square = not 1 / devices - NEARLY < factor < devices + NEARLY * devices
    return f"{size}, the {'square of the ' * square}number of devices"


def _statistics(before: Array, after: Array, axis: int | None, devices: int) -> str:
    """The cause if the part of each device is shifted and scaled, feature by feature."""
    if axis is None or devices < 2 or not is_float(before.dtype) or before.ndim < 2:
        return ""
    left, right = (_parts(wide(x), axis, devices) for x in (before, after))
    if left is None or right is None or left.shape[1] < 4 or not np.isfinite(right).all():
        return ""
    means = left.mean(1, keepdims=True), right.mean(1, keepdims=True)
    spread = ((left - means[0]) ** 2).sum(1, keepdims=True)
    if not (spread > 0).all():
        return ""
    scale = ((left - means[0]) * (right - means[1])).sum(1, keepdims=True) / spread
    rest = np.abs(right - means[1] - scale * (left - means[0])).max()
    if rest > NEARLY * np.abs(right).max():
        return ""
    return _SHIFTED


def _parts(array: Array, axis: int, devices: int) -> Array | None:
    """The array with three axes: devices, rows of a device, features."""
    rows = np.moveaxis(array, axis, 0)
    if rows.shape[0] == devices and rows.ndim > 1:
        return rows.reshape(devices, rows.shape[1], -1)
    if rows.shape[0] % devices:
        return None
    return rows.reshape(devices, rows.shape[0] // devices, -1)


def _not_numbers(before: Array, after: Array, axis: int | None, devices: int) -> str:  # noqa: ARG001
    if is_float(before.dtype):
        nans = [int(np.isnan(wide(x)).sum()) for x in (before, after)]
        if nans[1] != nans[0]:
            return f"{nans[1]} NaN, where there were {nans[0]} before"
    return ""


def update_factor(
    start: Array, before: Array, after: Array, axis: int | None = None
) -> float | None:
    """The factor by which the update of ``start`` changed, if two numbers or more agree on it."""
    if not is_float(start.dtype) or start.shape != before.shape or start.shape != after.shape:
        return None
    if start.dtype != before.dtype:
        return None
    old, new = (wide(x) - wide(start) for x in (before, after))
    if not np.any(old):
        return None
    if not (np.isfinite(old).all() and np.isfinite(new).all()) or root(before, axis).size < 2:
        return None
    scale = float(np.vdot(old, new) / np.vdot(old, old))
    # Updates are small differences of large numbers, so rounding is large relative to them.
    noise = 8 * float(np.abs(wide(start)).max()) * float(float_info(start.dtype).eps)
    rest = float(np.abs(new - scale * old).max())
    largest = float(np.abs(old).max())
    fits = rest <= max(ROUNDED * abs(scale) * largest, noise) and noise < 0.01 * largest
    return scale if fits and scale > 0.01 and abs(scale - 1) > 0.01 else None
