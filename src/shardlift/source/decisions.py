"""What was decided from outside about single places: to leave them, or the form that they get.

`migrate --verify` decides so when the numbers of a place do not hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Where(NamedTuple):
    """Where a place begins in the text before; a notebook is one place, at line 0."""

    path: str
    line: int = 0
    column: int = 0


@dataclass(frozen=True)
class Decisions:
    """Places that are not to be rewritten as the others are, each with the reason."""

    left: Mapping[Where, str] = field(default_factory=dict)  # as they are
    strict_vma: bool = False  # check_vma=True is written, but for those of `loose`
    loose: Mapping[Where, str] = field(default_factory=dict)

    def is_strict(self, where: Where) -> bool:
        """Whether a site gets the form that JAX checks."""
        return self.strict_vma and where not in self.loose
