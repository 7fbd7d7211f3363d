"""The result of a comparison: one verdict per site, with its findings and causes."""

from dataclasses import dataclass, field, replace
from enum import StrEnum

from shardlift.capture.schema import Capture, Part, SiteFacts, SiteKind
from shardlift.verify.compare.array_distance import Distance, Tolerance


class Verdict(StrEnum):
    """The result for a site, the worst first."""

    DIFFERENT = "different"
    NOT_REACHED = "not reached"
    NOT_COMPARED = "not compared"
    PARTLY_COMPARED = "partly compared"  # no difference in what was compared
    CLOSE = "close"
    IDENTICAL = "identical"


EQUAL = (Verdict.IDENTICAL, Verdict.CLOSE)


@dataclass(frozen=True)
class SitePlace:
    """Where a site is in its program."""

    file: str
    line: int
    function: str
    kind: SiteKind
    calls: int
    cell: tuple[int, int] | None = None  # of a notebook: the cell, and the line in it

    @property
    def where(self) -> str:
        """``train.py:12``, or ``demo.ipynb:cell 3:2``."""
        place = f"cell {self.cell[0]}:{self.cell[1]}" if self.cell else self.line
        return f"{self.file}:{place}"


def place_of(site: SiteFacts, capture: Capture) -> SitePlace:
    """The place of a site in its program."""
    cell = capture.cell(site.file, site.line)
    return SitePlace(site.file, site.line, site.function, site.kind, len(site.samples), cell)


@dataclass(frozen=True)
class LeafDifference:
    """The first difference in one leaf."""

    path: str
    call: int
    part: Part
    what: str  # the difference, in a sentence
    distance: Distance | None = None
    cause: str = ""
    close: bool = False
    about: str = ""  # the source line of a collective


class GapKind(StrEnum):
    """A part of a site that was not compared."""

    ONLY_BEFORE = "collective only before"
    ONLY_AFTER = "collective only after"
    VALUES_NOT_KEPT = "values of a collective not kept"
    COLLECTIVES_NOT_RECORDED = "collectives not recorded"
    OUTPUTS_NOT_READ = "outputs not read"
    NO_BYTES = "output without bytes"
    TRANSFORMED = "calls under a transformation"
    PROCESS_MISSING = "process not recorded"
    ONE_DEVICE = "only one device"
    ORDER = "order of calls"


@dataclass(frozen=True)
class Gap:
    """Something that was not compared: what it is or why, and how often."""

    kind: GapKind
    what: str = ""
    count: int = 1


@dataclass(frozen=True)
class SiteVerdict:
    """One site, before and after."""

    verdict: Verdict
    before: SitePlace | None
    after: SitePlace | None
    calls: int = 0  # compared calls
    leaves: int = 0  # compared outputs of all calls
    collectives: int = 0  # compared results of collectives
    collective_calls: int = 0  # calls whose collectives were compared
    differing_calls: int = 0
    findings: tuple[LeafDifference, ...] = ()  # the first of each leaf
    causes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()  # what was not compared
    outputs_only: bool = False  # no collectives were recorded (--collectives 0)
    # Whether the function itself differs, and not only its inputs; None if not known.
    itself: bool | None = None

    @property
    def name(self) -> str:
        """The name of the function before, or else after."""
        place = self.before or self.after
        return place.function if place else ""

    @property
    def first(self) -> LeafDifference | None:
        """The first difference outside the tolerance, or else the first."""
        far = [finding for finding in self.findings if not finding.close]
        return min(far or self.findings, key=lambda finding: finding.call, default=None)

    @property
    def calls_of_each(self) -> tuple[int, int]:
        """How often the programs call it."""
        before, after = (place.calls if place else 0 for place in (self.before, self.after))
        return before, after

    @property
    def differs(self) -> bool:
        """Whether it differs, or is called in one of the programs only."""
        before, after = self.calls_of_each
        in_one_only = (before > 0) != (after > 0)
        return self.verdict == Verdict.DIFFERENT or (
            self.verdict == Verdict.NOT_REACHED and in_one_only
        )


@dataclass(frozen=True)
class Side:
    """One of the two programs."""

    command: str
    jax: str = ""
    status: int | None = 0  # the exit status; None for a capture
    error: str = ""  # the end of the output, if it failed
    children: int = 0  # child processes that used JAX, whose calls were not recorded


@dataclass(frozen=True)
class ProgramVerdict:
    """The result of comparing two programs."""

    before: Side
    after: Side
    sites: tuple[SiteVerdict, ...]
    tolerance: Tolerance = field(default_factory=Tolerance)
    notes: tuple[str, ...] = ()
    live: bool = False  # both programs were run now: they have their files at the same time

    @property
    def shared_file(self) -> str:
        """The file of all mapped functions, if both programs run the very same ones: no proof."""
        called = [(site.before, site.after) for site in self.sites if site.calls]
        places = [{(one.file, one.line) for one in pair if one is not None} for pair in called]
        if not self.live or not places or any(len(place) > 1 for place in places):
            return ""
        return next(iter(places[0]))[0]

    def count(self, verdict: Verdict) -> int:
        """The number of sites with this verdict."""
        return sum(site.verdict == verdict for site in self.sites)

    @property
    def status(self) -> int:
        """0 if everything was compared and is equal, 1 if not, 2 if nothing was compared."""
        if any(site.differs or site.verdict in WANTING for site in self.sites):
            return 1
        if not any(site.calls for site in self.sites):
            return 2
        lacking = [side.status or side.children for side in (self.before, self.after)]
        return 1 if any(lacking) or self.shared_file else 0


WANTING = (Verdict.NOT_COMPARED, Verdict.PARTLY_COMPARED)  # no difference, and no proof


def with_gap(site: SiteVerdict, gap: Gap) -> SiteVerdict:
    """The verdict, with something more that was not compared."""
    verdict = Verdict.PARTLY_COMPARED if site.verdict in EQUAL else site.verdict
    return replace(site, verdict=verdict, gaps=(*site.gaps, gap))
