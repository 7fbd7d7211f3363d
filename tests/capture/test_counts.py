"""Times by bucket."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlift.capture.counts import Histogram, added
from shardlift.capture.schema import BUCKETS, Distribution, middle

times = st.floats(2.0**-30, 2.0**20)


def one(seconds: float) -> Distribution:
    histogram = Histogram()
    histogram.add(seconds)
    return histogram.freeze()


@given(times)
def test_the_middle_of_a_bucket_is_near(seconds: float) -> None:
    ((bucket, number),) = one(seconds).buckets
    assert number == 1
    assert abs(middle(bucket) - seconds) <= 0.032 * seconds


@given(st.floats(0, allow_infinity=False))
def test_every_time_has_a_bucket(seconds: float) -> None:
    assert 0 <= one(seconds).buckets[0][0] < BUCKETS


@given(st.lists(times, min_size=1, max_size=200), st.floats(0.01, 1))
def test_quantiles(seconds: list[float], q: float) -> None:
    histogram = Histogram()
    histogram.add_all(seconds)
    exact = float(np.quantile(seconds, q, method="inverted_cdf"))
    assert abs(histogram.freeze().quantile(q) - exact) <= 0.032 * exact


@given(st.lists(times, max_size=20), st.lists(times, max_size=20))
def test_adding(first: list[float], second: list[float]) -> None:
    parts, whole = (Histogram(), Histogram()), Histogram()
    for part, values in zip(parts, (first, second), strict=True):
        for value in values:
            part.add(value)
            whole.add(value)
    together = added(part.freeze() for part in parts)
    assert together.buckets == whole.freeze().buckets
    assert together.count == whole.count
    assert together.total == pytest.approx(whole.total)
    assert together.max == whole.max


def test_no_time_at_all() -> None:
    assert one(0.0) == Distribution(1, 0.0, 0.0, ((0, 1),))
    assert Distribution().quantile(0.5) == Distribution().mean == 0.0
    assert added([]) == Distribution()
