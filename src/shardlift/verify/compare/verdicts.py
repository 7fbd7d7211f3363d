"""The result of a comparison: one verdict per site, with its findings and causes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from shardlift.capture.schema import Part, Site, SiteKind
from shardlift.verify.compare.bits import Distance, Tolerance


class Verdict(StrEnum):
    """What a comparison shows of a site, the worst first."""

    DIFFERENT = "different"
    NOT_REACHED = "not reached"
    NOT_COMPARED = "not compared"
    CLOSE = "close"
    IDENTICAL = "identical"


@dataclass(frozen=True)
class Place:
    """Where a site is in its program."""

    file: str
    line: int
    function: str
    kind: SiteKind
    calls: int

    def __str__(self) -> str:
        return f"{self.function} ({self.file}:{self.line}, {self.kind})"


def place_of(site: Site) -> Place:
    """A site as it is shown."""
    return Place(site.file, site.line, site.function, site.kind, len(site.samples))


@dataclass(frozen=True)
class Finding:
    """The first difference in one leaf."""

    path: str
    call: int
    part: Part
    what: str  # the difference, in a sentence
    distance: Distance | None = None
    cause: str = ""
    close: bool = False
    about: str = ""  # of a collective: its line


@dataclass(frozen=True)
class SiteVerdict:
    """One site, before and after."""

    verdict: Verdict
    before: Place | None
    after: Place | None
    calls: int = 0  # that were compared
    leaves: int = 0  # outputs that were compared, of all those calls
    collectives: int = 0  # arrays of collectives that were compared
    replays: int = 0  # calls that were compared on the same inputs
    differing_calls: int = 0
    findings: tuple[Finding, ...] = ()  # the first one of each leaf
    causes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    # Whether it is this function that differs, and not what it was given; None: not known.
    itself: bool | None = None

    @property
    def name(self) -> str:
        """What it is called before, or else after."""
        place = self.before or self.after
        return place.function if place else ""

    @property
    def first(self) -> Finding | None:
        """The first difference that is not within the tolerance, or else the first."""
        far = [one for one in self.findings if not one.close]
        return min(far or self.findings, key=lambda one: one.call, default=None)


@dataclass(frozen=True)
class Side:
    """One of the two programs."""

    command: str
    jax: str = ""
    status: int | None = 0  # its exit status; None: a capture
    error: str = ""  # the end of what it said, if it failed


@dataclass(frozen=True)
class Outcome:
    """Two programs, compared."""

    before: Side
    after: Side
    sites: tuple[SiteVerdict, ...]
    tolerance: Tolerance = field(default_factory=Tolerance)
    notes: tuple[str, ...] = ()

    def count(self, verdict: Verdict) -> int:
        """The number of sites with this verdict."""
        return sum(site.verdict == verdict for site in self.sites)

    @property
    def failed(self) -> list[str]:
        """Which of the programs failed."""
        sides = (("before", self.before), ("after", self.after))
        return [name for name, side in sides if side.status]

    @property
    def status(self) -> int:
        """The exit status: 0 the same, 1 a difference, 2 nothing could be compared."""
        if any(site.verdict in (Verdict.DIFFERENT, Verdict.NOT_COMPARED) for site in self.sites):
            return 1
        if any(site.verdict == Verdict.NOT_REACHED and in_one_only(site) for site in self.sites):
            return 1
        if not any(site.calls for site in self.sites):
            return 2
        return 1 if self.failed else 0


def in_one_only(site: SiteVerdict) -> bool:
    """Is it called in one of the programs, and not in the other?"""
    calls = [place.calls if place else 0 for place in (site.before, site.after)]
    return (calls[0] > 0) != (calls[1] > 0)
