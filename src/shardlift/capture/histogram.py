"""Histograms of times: bounded in size for any number of calls, and they can be added."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from shardlift.capture.schema import BUCKETS, LOWEST, PER_OCTAVE, Distribution


class Histogram:
    """A `Distribution` that grows."""

    __slots__ = ("buckets", "count", "max", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.max = 0.0
        self.buckets: Counter[int] = Counter()

    def add(self, seconds: float) -> None:
        """Add one time."""
        self.add_all([seconds])

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
        self.buckets.update(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))

    def freeze(self) -> Distribution:
        """The distribution for a capture."""
        buckets = tuple(sorted(self.buckets.copy().items()))
        return Distribution(self.count, self.total, self.max, buckets)


def added(distributions: Iterable[Distribution]) -> Distribution:
    """The sum of several distributions."""
    total = Histogram()
    for part in distributions:
        total.count += part.count
        total.total += part.total
        total.max = max(total.max, part.max)
        total.buckets.update(dict(part.buckets))
    return total.freeze()
