"""Histograms of times: bounded in size for any number of calls, and they can be added."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from shardlift.capture.schema import BUCKETS, HIGHEST, LOWEST, PER_OCTAVE, Distribution


class Histogram:
    """A `Distribution` that grows."""

    __slots__ = ("buckets", "count", "max", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.max = 0.0
        self.buckets: dict[int, int] = {}

    def add(self, seconds: float) -> None:
        """Add one time."""
        self.count += 1
        self.total += seconds
        self.max = max(self.max, seconds)
        self._count(bucket_of(seconds), 1)

    def add_all(self, seconds: Sequence[float]) -> None:
        """Add many times at once, at a tenth of a microsecond each."""
        times = np.asarray(seconds)
        self.count += len(times)
        self.total += float(times.sum())
        self.max = max(self.max, float(times.max(initial=0.0)))
        mantissas, exponents = np.frexp(times)
        buckets = PER_OCTAVE * (exponents - 2 - LOWEST) + (2 * PER_OCTAVE * mantissas).astype(int)
        buckets[times < 2.0**LOWEST] = 0
        numbers, counts = np.unique(np.minimum(buckets, BUCKETS - 1), return_counts=True)
        for bucket, count in zip(numbers.tolist(), counts.tolist(), strict=True):
            self._count(bucket, count)

    def _count(self, bucket: int, count: int) -> None:
        self.buckets[bucket] = self.buckets.get(bucket, 0) + count

    def freeze(self) -> Distribution:
        """The distribution for a capture."""
        return Distribution(
            self.count, self.total, self.max, tuple(sorted(self.buckets.copy().items()))
        )


def bucket_of(seconds: float) -> int:
    """The bucket of a time; `schema.middle` goes back.

    >>> bucket_of(1.0), bucket_of(2.0), bucket_of(0.0)
    (480, 496, 0)
    """
    mantissa, exponent = math.frexp(seconds)
    if seconds < 2.0**LOWEST:
        return 0
    if exponent > HIGHEST + 1:
        return BUCKETS - 1
    return PER_OCTAVE * (exponent - 2 - LOWEST) + int(2 * PER_OCTAVE * mantissa)


def added(distributions: Iterable[Distribution]) -> Distribution:
    """The sum of several distributions."""
    total = Histogram()
    for part in distributions:
        total.count += part.count
        total.total += part.total
        total.max = max(total.max, part.max)
        for bucket, count in part.buckets:
            total._count(bucket, count)
    return total.freeze()
