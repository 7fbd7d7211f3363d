"""What is counted: facts of which only the number differs, and histograms of times.

Both are bounded in size for any number of calls, and can be added.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from shardlift.capture.schema import BUCKETS, LOWEST, PER_OCTAVE, Distribution, Move, Read

T = TypeVar("T", Move, Read)


class Tally(Generic[T]):
    """The facts so far; ``counts`` names the fields that are added up."""

    def __init__(self, *counts: str) -> None:
        self._counts = counts
        self._facts: dict[Any, T] = {}

    def add(self, fact: T) -> None:
        """Count a fact."""
        zeros: dict[str, Any] = dict.fromkeys(self._counts, 0)
        key = dataclasses.replace(fact, **zeros)
        old = self._facts.get(key)
        if old is not None:
            sums: dict[str, Any] = {
                name: getattr(old, name) + getattr(fact, name) for name in self._counts
            }
            fact = dataclasses.replace(fact, **sums)
        self._facts[key] = fact

    def freeze(self) -> tuple[T, ...]:
        """The facts for a capture, in the order in which they were first seen."""
        return tuple(self._facts.values())


def add_alike(facts: Iterable[T], *counts: str) -> tuple[T, ...]:
    """The facts, with those as one that differ in ``counts`` only."""
    tally: Tally[T] = Tally(*counts)
    for fact in facts:
        tally.add(fact)
    return tally.freeze()


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
