"""Facts that are counted: those that differ in their counts only are one."""

import dataclasses
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from shardlift.capture.schema import Move, Read

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
