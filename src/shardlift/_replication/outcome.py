"""The result of a replication proof, by output."""

import dataclasses
from collections.abc import Hashable, Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Equation:
    """A primitive, and the line of the user's code that used it, if JAX knows it."""

    primitive: str
    source: tuple[str, int, str] | None  # file, line, function

    def __str__(self) -> str:
        if self.source is None:
            return self.primitive
        file, line, function = self.source
        return f"{self.primitive} at {file}:{line}" + (f" ({function})" if function else "")


@dataclasses.dataclass(frozen=True)
class Proven:
    """An output that is equal on all devices, bit by bit."""

    def __str__(self) -> str:
        return "equal on all devices"


@dataclasses.dataclass(frozen=True)
class NotProven:
    """An output that is not known to be equal on all devices, and why."""

    argument: str | None  # the path of the argument that it depends on
    equation: Equation | None  # the first one that used the argument, or caused the difference
    why: str  # what that equation does, if it caused the difference
    along: tuple[Hashable, ...]  # the axes along which it is equal nevertheless

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        if self.argument is not None:
            first = f", first used by {self.equation}" if self.equation else ""
            parts = [f"comes from argument {self.argument}{first}"]
        else:
            parts = [f"{self.equation} {self.why}" if self.equation else self.why]
        if self.along:
            parts.append(f"equal along {', '.join(map(repr, self.along))} only")
        return "not proven: " + ", ".join(parts)


@dataclasses.dataclass(frozen=True)
class Replication:
    """Which outputs of a mapped function are equal on all devices; prints one line per leaf."""

    name: str
    axes: Mapping[Hashable, int]
    outputs: Mapping[str, Proven | NotProven]
    proven: Any  # the output's tree, with True for proven leaves

    def __str__(self) -> str:
        axes = ", ".join(f"{name!r}: {size}" for name, size in self.axes.items())
        lines = [f"replication of {self.name} over {axes}"]
        for path, outcome in self.outputs.items():
            lines.append(f"  output{'' if path == '<leaf>' else path}: {outcome}")
        return "\n".join(lines)
