"""The policy of `rounding.py`: another order of sums passes, another number does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .rounding import assert_recorded, tolerance


@settings(deadline=None)
@given(st.integers(2, 300), st.integers(0, 2**32 - 1))
def test_another_order_of_a_sum_is_within_its_count(count: int, seed: int) -> None:
    numbers = np.random.default_rng(seed).uniform(1, 2, count).astype(np.float32)
    forwards = np.add.accumulate(numbers)[-1:]
    backwards = np.add.accumulate(numbers[::-1])[-1:]
    assert_recorded(forwards, backwards, count, "sum")


@pytest.mark.parametrize(
    "wrong",
    [
        np.float32([1, 2, 3.01]),
        np.float32([1, 2, np.nan]),
        np.float32([8, 16, 24]),
        np.float64([1, 2, 3]),
        np.float32([[1, 2, 3]]),
    ],
    ids=["far", "nan", "8 times", "dtype", "shape"],
)
def test_another_number_is_not(wrong: np.ndarray) -> None:
    right = np.float32([1, 2, 3])
    assert_recorded(right + np.float32(1e-5), right, 1000, "close")
    with pytest.raises(AssertionError, match="here"):
        assert_recorded(wrong, right, 1000, "here")


def test_what_is_never_rounded_is_equal() -> None:
    right = np.int32([100, 101])
    assert_recorded(right, right.copy(), 10**6, "same")
    with pytest.raises(AssertionError, match="here"):
        assert_recorded(right[::-1], right, 10**6, "here")
    assert tolerance(np.float64, 8) < tolerance(np.float32, 8) < tolerance(np.float16, 8)
