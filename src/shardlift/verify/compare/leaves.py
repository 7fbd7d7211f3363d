"""Two leaves: whether they can be compared, are the same, and how far apart they are."""

from __future__ import annotations

from shardlift.capture.layouts import Array, LayoutChange, layout_of, same_digest
from shardlift.capture.schema import Form
from shardlift.verify.compare.bits import (
    Distance,
    Tolerance,
    about,
    is_float,
    numpy_dtype,
    within,
)

MOST_ULPS = 2**16  # more do not mean anything to a reader


def structure(before: Form, after: Form) -> tuple[str, str] | None:
    """What keeps two leaves from being compared, and why; None if they can be."""
    if before.dtype != after.dtype:
        return f"{before.dtype} before, {after.dtype} after", "the type of the numbers changed"
    if layout_of(before.shape, after.shape) is None:
        return (
            f"shape {before.shape} before, {after.shape} after",
            "neither stacked, joined nor copied over the devices, the one is not the other",
        )
    if before.agree and not after.agree:
        return (
            "one value before; after, the copies on the devices disagree",
            "out_specs=P() or out_axes=None of a value that varies (check_vma=False does not look)",
        )
    return None


def identical(forms: tuple[Form, Form], digests: tuple[str, str]) -> bool:
    """Are the bytes equal? Where only one side has copies, their common value is compared."""
    if layout_of(forms[0].shape, forms[1].shape) is LayoutChange.COPIES:
        return same_digest(*digests)
    return digests[0].partition("/")[0] == digests[1].partition("/")[0]


def is_array(form: Form) -> bool:
    """Does a leaf hold numbers?"""
    try:
        return numpy_dtype(form.dtype).kind not in "OUSMm"
    except (TypeError, AttributeError):  # an object of Python's, a text
        return False


def nearly(before: Array, after: Array) -> bool:
    """Equal up to rounding: collectives run in programs that are compiled separately."""
    if not is_float(before.dtype):
        return False
    epsilon = float(about(before.dtype).eps)
    return within(before, after, Tolerance(rtol=epsilon**0.5))


def words(apart: Distance) -> str:
    """A distance in words."""
    where = "".join(f"[{k}]" for k in apart.place)
    share = f"{apart.elements} of {apart.size} elements"
    fine = apart.ulps is not None and apart.ulps <= MOST_ULPS
    far = f"up to {apart.ulps:,} ulps, " if fine else ""
    relative = f"by {apart.relative:.3g} of the largest number"
    values = f"{apart.before} before, {apart.after} after"
    return f"{share} differ, {far}{relative}; {f'at {where} ' if where else ''}{values}"
