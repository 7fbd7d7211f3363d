"""One site of each program: what was recorded of both, and what the comparison finds."""

from __future__ import annotations

from collections import Counter

from shardlift.capture.layouts import together
from shardlift.capture.schema import ArrayForm, Part, Sample, SiteKind, Values
from shardlift.verify.compare import causes
from shardlift.verify.compare.array_distance import ROUNDING, Tolerance, distance, within
from shardlift.verify.compare.captured_run import CapturedRun
from shardlift.verify.compare.collective_results import ArrayPair
from shardlift.verify.compare.explanation import Clues
from shardlift.verify.compare.leaf_comparison import words
from shardlift.verify.compare.spread import Spread
from shardlift.verify.compare.verdicts import GapKind, LeafDifference

# Of the two programs:
SamplePair = tuple[Sample, Sample]
FormPair = tuple[ArrayForm, ArrayForm]
FormLists = tuple[tuple[ArrayForm, ...], tuple[ArrayForm, ...]]
Places = tuple[int, int]  # of a leaf in the lists of forms
MOST_CALLS = 200  # differing calls of a site whose values are compared


class SitePair:
    """A pair of sites, with the findings, gaps and clues that were collected so far."""

    def __init__(
        self, runs: tuple[CapturedRun, CapturedRun], numbers: tuple[int, int], tolerance: Tolerance
    ) -> None:
        self.runs, self.numbers, self.tolerance = runs, numbers, tolerance
        self.sites = runs[0].capture.sites[numbers[0]], runs[1].capture.sites[numbers[1]]
        self.devices = max(site.axis_size for site in self.sites)
        self.spread = Spread(runs[0], numbers[0])
        self.findings: dict[tuple[Part, str], LeafDifference] = {}
        self.notes: dict[str, None] = {}
        self.gaps: Counter[tuple[GapKind, str]] = Counter()
        self.differing = 0  # calls
        kinds = [site.kind for site in self.sites]
        is_whole = kinds == [SiteKind.PMAP, SiteKind.JIT] and self.devices > 1
        self.clues = Clues(whole_batch=is_whole)

    def forms(self, side: int, values: Values) -> tuple[ArrayForm, ...]:
        """The forms of arrays of one program."""
        return self.sites[side].forms[values.forms]

    def arrays(
        self, samples: SamplePair, parts: tuple[Part, Part], places: Places, forms: FormPair
    ) -> ArrayPair | None:
        """The values of two leaves, if both were kept."""
        if self.differing >= MOST_CALLS:
            return None
        left, right = (
            self.runs[k].array(self.numbers[k], samples[k], parts[k], places[k], forms[k])
            for k in (0, 1)
        )
        return None if left is None or right is None else (left, right)

    def measure(
        self, path: str, call: int, part: Part, arrays: ArrayPair, forms: FormPair
    ) -> LeafDifference | None:
        """How two arrays differ, and what that looks like; None if they are identical."""
        left, right, axis = together(*arrays, (forms[0].axis, forms[1].axis))
        apart = distance(left, right)
        if apart.identical:
            return None
        close = bool(self.tolerance) and within(left, right, self.tolerance)
        cause = causes.LikelyCause()
        if not close and not within(left, right, ROUNDING):
            cause = causes.likely(left, right, axis, self.devices)
        what, about = words(apart), forms[0].about
        return LeafDifference(path, call, part, what, apart, cause[0], close, about, cause[1])

    def add(self, finding: LeafDifference) -> None:
        """Keep the first finding of each leaf, or the first that is not close."""
        key = (finding.part, f"{finding.path} {finding.about}")
        old = self.findings.get(key)
        if old is None or (old.close and not finding.close):
            self.findings[key] = finding
