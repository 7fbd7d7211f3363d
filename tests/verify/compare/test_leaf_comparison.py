"""Two leaves: whether they can be compared, and how they differ."""

import numpy as np
import pytest

from shardlift.capture.files import CaptureError
from shardlift.capture.schema import ArrayForm, Capture
from shardlift.verify.compare.array_distance import Distance
from shardlift.verify.compare.captured_run import CapturedArray, CapturedRun
from shardlift.verify.compare.leaf_comparison import is_array, nearly, structure, words


def _form(
    path: str = "x", dtype: str = "float32", shape: tuple[int, ...] = (8, 2), **more: bool
) -> ArrayForm:
    return ArrayForm(path, dtype, shape, **more)


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (_form(), _form(), None),
        (_form(), _form(shape=(16,)), None),
        (_form(), _form(dtype="bfloat16"), "float32 before, bfloat16 after"),
        (_form(), _form(shape=(3,)), "shape (8, 2) before, (3,) after"),
        (_form(), _form(agree=False), "one value before; the copies on the devices disagree after"),
    ],
)
def test_structures(before: ArrayForm, after: ArrayForm, text: str | None) -> None:
    found = structure(before, after)
    assert (found[0] if found else None) == text


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float32", True),
        ("bfloat16", True),
        ("key<fry>", True),
        ("str", False),
        ("nonsense", False),
    ],
)
def test_leaves_with_numbers(dtype: str, expected: bool) -> None:
    assert is_array(_form(dtype=dtype)) is expected


def test_rounding() -> None:
    ones = np.ones(3, np.float32)
    assert nearly(ones, ones * np.float32(1 + 1e-6))
    assert not nearly(ones, ones * 2)
    turned = np.ones(3, np.complex64) * 1j
    assert nearly(turned, turned * np.float32(1 + 1e-6))
    assert not nearly(turned, turned * 2)
    assert not nearly(np.ones(3, np.int32), np.ones(3, np.int32))


def test_distances_in_words() -> None:
    far = Distance(2, 8, ulps=5, relative=0.5, place=(1, 0), before="1.0", after="2.0")
    assert words(far) == (
        "2 of 8 elements differ, up to 5 ulps, by 0.5 of the largest number; "
        "at [1][0] 1.0 before, 2.0 after"
    )
    one = Distance(1, 1, ulps=2**20, relative=1.0, before="1.0", after="2.0")
    assert words(one) == "1 of 1 elements differ, by 1 of the largest number; 1.0 before, 2.0 after"


def test_arrays_that_were_not_kept_or_are_damaged() -> None:
    recorded = CapturedRun(Capture(), {"damaged": np.zeros(3, np.uint8)})
    assert CapturedArray(recorded, "x", _form(), "").values() is None
    empty = CapturedArray(recorded, "x", _form(shape=(0, 2)), "").values()
    assert empty is not None
    assert empty.shape == (0, 2)
    with pytest.raises(CaptureError, match="the values of damaged are damaged"):
        CapturedArray(recorded, "damaged", _form(), "").values()
