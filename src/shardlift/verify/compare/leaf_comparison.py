"""Two leaves: whether they can be compared, are identical, and how they differ."""

from typing import NamedTuple

from shardlift.capture.layouts import Array, LayoutChange, layout_of, numpy_dtype, same_digest
from shardlift.capture.schema import ArrayForm
from shardlift.verify.compare import array_distance

MOST_ULPS = 2**16  # a larger number of ulps is not shown
VARIES = "out_specs=P() or out_axes=None for a value that varies (not checked: check_vma=False)"


class Maps(NamedTuple):
    """How two functions are mapped: over how many devices, and which of them is a pmap."""

    devices: int = 0
    pmaps: tuple[bool, bool] = (False, False)


NO_MAPS = Maps()


def fitting(before: ArrayForm, after: ArrayForm, maps: Maps = NO_MAPS) -> LayoutChange | None:
    """How the shapes of two leaves hold the same array."""
    axes = before.axis, after.axis
    kind = layout_of(before.shape, after.shape, axes, maps.devices)
    fewer = int(len(after.shape) < len(before.shape))
    is_stacked = maps.pmaps[fewer] and axes[fewer] is not None
    # The rows of a pmap are stacked already: more axes are another shape on each device.
    return None if is_stacked and kind is not LayoutChange.SAME else kind


def structure(before: ArrayForm, after: ArrayForm, maps: Maps = NO_MAPS) -> tuple[str, str] | None:
    """Why two leaves cannot be compared: the difference, and its cause; or None."""
    if before.dtype != after.dtype:
        return f"{before.dtype} before, {after.dtype} after", "the dtype changed"
    if before.agree and not after.agree:
        what = "one value before; the copies on the devices disagree after"
        return what, VARIES
    if fitting(before, after, maps) is None:
        return (
            f"shape {before.shape} before, {after.shape} after",
            "the shapes do not fit, whether stacked, joined or copied over the devices",
        )
    return None


def identical(
    forms: tuple[ArrayForm, ArrayForm], digests: tuple[str, str], maps: Maps = NO_MAPS
) -> bool:
    """Whether the bytes are equal. If only one side has copies, their common value counts."""
    if fitting(*forms, maps) is LayoutChange.COPIES:
        return same_digest(*digests)
    return digests[0].partition("/")[0] == digests[1].partition("/")[0]


def is_array(form: ArrayForm) -> bool:
    """Whether a leaf holds numbers."""
    try:
        return numpy_dtype(form.dtype).kind not in "OUSMm"
    except (TypeError, AttributeError):  # a Python object or a string
        return False


def nearly(before: Array, after: Array) -> bool:
    """Whether arrays are equal up to rounding, which depends on how a program is compiled."""
    part = before.real.dtype if before.dtype.kind == "c" else before.dtype
    if not array_distance.is_float(part):
        return False
    epsilon = float(array_distance.float_info(part).eps)
    return array_distance.within(before, after, array_distance.Tolerance(rtol=epsilon**0.5))


def words(apart: array_distance.Distance) -> str:
    """A distance in words."""
    where = "".join(f"[{k}]" for k in apart.place)
    share = f"{apart.elements} of {apart.size} elements"
    fine = apart.ulps is not None and apart.ulps <= MOST_ULPS
    far = f"up to {apart.ulps:,} ulps, " if fine else ""
    relative = f"by {apart.relative:.3g} of the largest number"
    values = f"{apart.before} before, {apart.after} after"
    return f"{share} differ, {far}{relative}; {f'at {where} ' if where else ''}{values}"
