"""Likely causes of a difference between two arrays."""

import numpy as np
import pytest

from shardlift.capture.layouts import Array
from shardlift.verify.compare.causes import constant_factor, device_factor, likely

ROWS = np.random.default_rng(0).normal(size=(8, 4, 3)).astype(np.float32)
EQUAL = np.repeat(ROWS[:1], 8, axis=0)


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (EQUAL, ROWS, "the devices disagree where they agreed before"),
        (ROWS, ROWS[::-1], "the same rows in another order, [7, 6, 5, 4, 3, 2, 1, 0]"),
        (ROWS, EQUAL, "all devices have the value of the first"),
        (ROWS, np.repeat(ROWS.mean(0, keepdims=True), 8, 0), "the mean over the devices"),
        (ROWS, np.repeat(ROWS.sum(0, keepdims=True), 8, 0), "the sum over the devices"),
        (ROWS, np.full_like(ROWS, 7), "every device has the same value"),
        (ROWS, ROWS * 8, "8.000 times too large, the number of devices"),
        (ROWS, ROWS / 8, "8.000 times too small, the number of devices"),
        (ROWS, ROWS * 64, "the square of the number of devices"),
        (ROWS, ROWS * 3, ""),
        (ROWS, ROWS**3 + ROWS**2, ""),
    ],
)
def test_likely_causes(before: Array, after: Array, text: str) -> None:
    found = likely(before, after, 0, 8)
    assert found.startswith(text) or text in found
    assert bool(found) is bool(text)


def test_integers_and_arrays_without_device_axis() -> None:
    numbers = np.arange(1, 9, dtype=np.int32)
    assert "8.000 times too large" in likely(numbers, numbers * 8, None, 8)
    assert likely(numbers > 4, numbers > 3, None, 8) == ""
    assert "every device has the same value" in likely(numbers, np.full_like(numbers, 9), 0, 8)


@pytest.mark.parametrize(
    ("before", "after", "factor"),
    [
        ([1.0, 2.0], [2.0, 4.0], 2.0),
        ([1.0, 2.0], [1.0, 2.0], None),
        ([1.0, 2.0], [2.0, 5.0], None),
        ([0.0, 0.0], [1.0, 1.0], None),
        ([1.0, np.inf], [2.0, np.inf], None),
        ([], [], None),
    ],
)
def test_constant_factors(before: list[float], after: list[float], factor: float | None) -> None:
    assert constant_factor(np.float32(before), np.float32(after)) == factor


def test_a_factor_is_named_if_it_is_the_number_of_devices() -> None:
    for before, after in (([2.0], [16.0]), ([1.0, 2.0], [8.0078125, 16.015625])):
        assert device_factor(np.float32(before), np.float32(after), None, 8) == after[0] / before[0]
    for before, after in (([2.0], [16.01]), ([1.0, 2.0], [1.25, 2.5]), ([1.0, 2.0], [9.0, 16.0])):
        assert device_factor(np.float32(before), np.float32(after), None, 8) is None
