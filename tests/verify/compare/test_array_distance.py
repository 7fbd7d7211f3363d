"""Ulps against numpy.nextafter and against the sorted list of all numbers of a small type."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlift.capture.layouts import numpy_dtype
from shardlift.verify.compare.array_distance import (
    ROUNDING,
    Tolerance,
    distance,
    is_float,
    ulps,
    wide,
    within,
)

SMALL = [
    "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e4m3b11fnuz",
    "float4_e2m1fn", "float6_e3m2fn", "float8_e8m0fnu",
]  # fmt: skip


@given(
    st.floats(width=32, min_value=-(2.0**99), max_value=2.0**99), st.integers(0, 40), st.booleans()
)
def test_as_many_as_nextafter_takes(start, steps, up):
    end = x = np.float32(start)
    for _ in range(steps):
        end = np.nextafter(end, np.float32(np.inf if up else -np.inf))
    # 0.0 and -0.0 are one place; nextafter passes from one side of it to the other in one step.
    assert ulps(np.array([x]), np.array([end]))[0] == steps


def test_the_two_ends_of_the_line():
    largest = np.finfo(np.float64).max
    assert ulps(np.array([-largest]), np.array([largest]))[0] == 2.0 * 0x7FEFFFFFFFFFFFFF
    top = np.finfo(np.float32).max
    assert ulps(np.float32([-top]), np.float32([top]))[0] == 2 * 0x7F7FFFFF


@pytest.mark.parametrize("name", SMALL)
def test_small_types_against_all_their_numbers(name):
    dtype = numpy_dtype(name)
    assert is_float(dtype)
    unsigned = np.arange(2 ** (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}")
    bits = int(ml_dtypes.finfo(dtype).bits)
    numbers = unsigned[unsigned < 2**bits].view(dtype)
    numbers_wide = wide(numbers)
    finite = np.unique(numbers_wide[np.isfinite(numbers_wide)])  # sorted; 0.0 and -0.0 are one
    middle = len(finite) // 2
    chosen = finite[[0, 1, middle - 1, middle, middle + 1, -2, -1]].astype(dtype)
    for k, a in enumerate(chosen):
        for b in chosen[k:]:
            places = np.searchsorted(finite, [float(a), float(b)])
            got = ulps(np.array([a], dtype), np.array([b], dtype))[0]
            assert got == places[1] - places[0], (a, b)


def test_not_numbers():
    nan, inf = np.nan, np.inf
    left = np.float32([nan, nan, inf, inf, -0.0, 1.0])
    right = np.float32([nan, 1.0, inf, 3.0, 0.0, 1.0])
    assert ulps(left, right).tolist() == [0, np.inf, 0, np.inf, 0, 0]
    found = distance(left, right)
    assert (found.elements, found.size) == (3, 6)  # -0.0 has other bits than 0.0
    assert found.ulps is None
    assert not within(left, right, Tolerance(ulps=5, rtol=1.0, atol=9.0))
    assert within(left[[0, 4]], right[[0, 4]], Tolerance(ulps=1))


def test_nans_of_other_bits_are_seen():
    left = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32)
    found = distance(left, left[::-1].copy())
    assert (found.elements, found.ulps) == (2, 0)


@pytest.mark.parametrize(
    ("left", "right", "elements"),
    [
        (np.int32([2**31 - 1, 1]), np.int32([-(2**31), 1]), 1),
        (np.uint8([0, 255]), np.uint8([0, 254]), 1),
        (np.array([True, False]), np.array([True, True]), 1),
        (np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32), 0),
        (np.complex64([1 + 2j, 3]), np.complex64([1 + 2j, 3 + 1e-6j]), 1),
        (np.complex64(1j), np.complex64(2j), 1),
        (np.float32(1), np.float32(2), 1),
    ],
)
def test_other_types(left, right, elements):
    left, right = np.asarray(left), np.asarray(right)
    assert distance(left, right).elements == elements
    assert distance(left, left.copy()).identical
    assert within(left, left.copy(), Tolerance())
    if elements:
        assert not within(left, right, Tolerance())


def test_whole_numbers_are_never_close():
    assert not within(np.int32([100]), np.int32([101]), Tolerance(ulps=5, rtol=1.0, atol=9.0))


def test_the_worst_place():
    left = np.ones((3, 4), np.float32)
    right = left.copy()
    right[0, 1] = np.nextafter(np.float32(1), np.float32(2))
    right[2, 3] = 1.5
    found = distance(left, right)
    assert (found.place, found.before, found.after) == ((2, 3), "1.0", "1.5")
    assert (found.elements, found.ulps, found.relative) == (2, 2**22, 0.5)


@pytest.mark.parametrize(
    ("tolerance", "passes"),
    [
        (Tolerance(), False), (Tolerance(ulps=1), False), (Tolerance(ulps=2), True),
        (Tolerance(rtol=1e-8), False), (Tolerance(rtol=1e-3), True), (Tolerance(atol=1e-3), True),
    ],
)  # fmt: skip
def test_tolerance(tolerance, passes):
    left = np.float32([1.0, 2.0])
    right = left.copy().view(np.uint32)
    right[0] += 2
    assert within(left, right.view(np.float32), tolerance) is passes


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
def test_rounding_counts_in_ulps_of_the_largest_number(dtype):
    epsilon = float(ml_dtypes.finfo(dtype).eps)
    left = np.array([1.0, 0.0], dtype)
    near, far = np.array([1.0, 8 * epsilon], dtype), np.array([1.0, 16 * epsilon], dtype)
    assert within(left, near, ROUNDING)
    assert not within(left, far, ROUNDING)
    assert distance(left, near).rounding == pytest.approx(8)
