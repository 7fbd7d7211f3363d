"""Changes: what a migration does to a file, one object per place, and which of them are made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from shardlift.source.model import Kind, Span


class ChangeId(NamedTuple):
    """What a change does, and where it begins in the text before.

    The changes of a notebook are made together: they have one identity, at line 0.
    """

    path: str
    line: int
    column: int
    kind: Kind


def notebook_id(path: str) -> ChangeId:
    """The one identity of a notebook's changes."""
    return ChangeId(path, 0, 0, Kind.SITE)


@dataclass(frozen=True)
class Change:
    """One place that is rewritten, or left alone for a reason."""

    id: ChangeId
    kind: Kind
    span: Span  # in the text before
    text: str  # what stands there, shortened
    # The first and last lines of the pmap that this change replaces, in the text before.
    sites: tuple[tuple[int, int], ...] = ()
    reason: str = ""
    name: str = ""  # the removed name that it is about
    successor: str = ""  # the name that is written for it, if it is not the usual one
    on_import: bool = False  # whether importing the module executes it

    def touches(self, first: int, last: int) -> bool:
        """Whether the change, or a pmap that it replaces, is on these lines of the text before."""
        lines = [(self.span.line, self.span.end_line), *self.sites]
        return any(start <= last and first <= end for start, end in lines)


@dataclass(frozen=True)
class Decisions:
    """Changes that are not made, each with the reason."""

    left: Mapping[ChangeId, str] = field(default_factory=dict)
    lines: tuple[int, int] | None = None  # only changes on these lines are made, of a Python file
