"""What a replication proof says, by output."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Source:
    """A line of the user's code."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f" ({self.function})" if self.function else "")


@dataclasses.dataclass(frozen=True)
class Equation:
    """A primitive, and the line that called for it, where JAX knows."""

    primitive: str
    source: Source | None

    def __str__(self) -> str:
        return self.primitive + (f" at {self.source}" if self.source else "")


@dataclasses.dataclass(frozen=True)
class Proven:
    """An output that is equal on all devices, bit by bit."""

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        return "equal on all devices"


@dataclasses.dataclass(frozen=True)
class NotProven:
    """An output that is not known to be equal on all devices, and why."""

    argument: str | None  # the argument it comes from, by its path
    equation: Equation | None  # the first one that used the argument, or made the difference
    why: str  # what that equation does, where it makes the difference
    control: Equation | None  # the loop or branch whose predicate brought the difference in
    along: tuple[Hashable, ...]  # the axes along which it is equal all the same
    groups: tuple[tuple[int, ...], ...]  # the devices among which it is, where there are several

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        said = [part for part in (self._origin(), self._control(), self._rest()) if part]
        return "not proven: " + ", ".join(said)

    def _origin(self) -> str:
        if self.argument is not None:
            first = f", first used by {self.equation}" if self.equation else ""
            return f"comes from argument {self.argument}{first}"
        return f"{self.equation} {self.why}" if self.equation else self.why

    def _control(self) -> str:
        return f"by way of the predicate of {self.control}" if self.control else ""

    def _rest(self) -> str:
        if self.along:
            return f"equal along {', '.join(map(repr, self.along))} only"
        if any(len(group) > 1 for group in self.groups) and len(self.groups) <= 8:
            shown = " ".join(f"({' '.join(map(str, group))})" for group in self.groups)
            return f"equal within {shown}"
        return ""


@dataclasses.dataclass(frozen=True)
class Replication:
    """Which outputs of a mapped function are equal on all devices; prints a line a leaf."""

    name: str
    axes: Mapping[Hashable, int]
    outputs: Mapping[str, Proven | NotProven]
    proven: Any  # the output's tree with True where it is proven

    @property
    def all_proven(self) -> bool:
        """Is every output equal on all devices?"""
        return all(self.outputs.values())

    def __str__(self) -> str:
        axes = ", ".join(f"{name!r}: {size}" for name, size in self.axes.items())
        lines = [f"replication of {self.name} over {axes}"]
        lines += [f"  output{_shown(path)}: {said}" for path, said in self.outputs.items()]
        return "\n".join(lines)


def _shown(path: str) -> str:
    return "" if path == "<leaf>" else path
