"""What the difference between two arrays looks like; an empty text if like nothing known."""

import numpy as np

from shardlift.capture.layouts import Array, bits_of, root
from shardlift.verify.compare.array_distance import is_float, wide

NEARLY = 2e-3  # relative deviation up to which a factor is the number of devices
EXACTLY = 1e-5  # the same where only one number tells the factor


def likely(before: Array, after: Array, axis: int | None, devices: int) -> str:
    """The likely cause. Both arrays have the devices' rows along ``axis``."""
    cause = _rows(before, after, axis, devices)
    factor = None if cause else device_factor(before, after, axis, devices)
    if factor is None:
        return cause
    is_square = not 1 / devices - NEARLY < factor < devices + NEARLY * devices
    return f"{size_of(factor)}, the {'square of the ' * is_square}number of devices"


def _rows(before: Array, after: Array, axis: int | None, devices: int) -> str:
    if axis is None or axis >= before.ndim or before.shape[axis] < 2 or not before.size:
        return ""
    left, right = _row_bytes(before, axis, devices), _row_bytes(after, axis, devices)
    if len(set(left)) == 1 and len(set(right)) > 1:
        return "the devices disagree where they agreed before"
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


def device_factor(before: Array, after: Array, axis: int | None, devices: int) -> float | None:
    """The constant factor, if it is the number of devices: another one may be chance."""
    factor = constant_factor(before, after)
    tolerance = EXACTLY if root(before, axis).size == 1 else NEARLY
    return factor if factor and is_of_devices(factor, devices, tolerance) else None


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
    rest = np.abs(right - scale * left).max() / np.abs(left).max()
    return scale if rest < NEARLY * min(abs(scale), abs(scale - 1)) else None


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
