"""One site of each program: what was recorded of both, and what the comparison finds."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from shardlift.capture.files import CaptureError
from shardlift.capture.layouts import together
from shardlift.capture.schema import ArrayForm, Part, Sample, SiteKind
from shardlift.verify.compare import causes
from shardlift.verify.compare.array_distance import ROUNDING, Tolerance, distance, within
from shardlift.verify.compare.captured_run import ArrayLists, CapturedArray, CapturedRun
from shardlift.verify.compare.collective_results import ArrayPair
from shardlift.verify.compare.explanation import Clues
from shardlift.verify.compare.leaf_comparison import words
from shardlift.verify.compare.verdicts import GapKind, LeafDifference

SamplePair = tuple[Sample, Sample]  # of the two programs
MOST_CALLS = 200  # differing calls of a site whose values are compared
FACTOR = 4.0  # two runs are one sample: a third one may be further away than they are apart


class SitePair:
    """A pair of sites, with the findings, gaps and clues that were collected so far."""

    def __init__(
        self, runs: tuple[CapturedRun, CapturedRun], numbers: tuple[int, int], tolerance: Tolerance
    ) -> None:
        self.runs, self.numbers, self.tolerance = runs, numbers, tolerance
        self.sites = runs[0].capture.sites[numbers[0]], runs[1].capture.sites[numbers[1]]
        self.devices = max(site.axis_size for site in self.sites)
        self.spread = Spread(runs[0].again)
        self.findings: dict[tuple[Part, str], LeafDifference] = {}
        self.notes: dict[str, None] = {}
        self.gaps: Counter[tuple[GapKind, str]] = Counter()
        self.differing = 0  # calls
        kinds = [site.kind for site in self.sites]
        is_whole = kinds == [SiteKind.PMAP, SiteKind.JIT] and self.devices > 1
        self.clues = Clues(whole_batch=is_whole)

    def arrays(self, samples: SamplePair, parts: tuple[Part, Part]) -> ArrayLists:
        """The arrays of one part of a call, in both programs."""
        left, right = (
            self.runs[k].arrays_of(self.numbers[k], samples[k], parts[k]) for k in (0, 1)
        )
        return left, right

    def values(self, left: CapturedArray, right: CapturedArray) -> ArrayPair | None:
        """The values of two arrays, if both were kept."""
        if self.differing >= MOST_CALLS:
            return None
        before, after = left.values(), right.values()
        return None if before is None or after is None else (before, after)

    def measure(
        self, call: int, part: Part, arrays: ArrayPair, forms: tuple[ArrayForm, ArrayForm]
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
        path, about = forms[0].path, forms[0].about
        return LeafDifference(
            path, call, part, words(apart), apart, cause[0], close, about, cause[1]
        )

    def add(self, finding: LeafDifference) -> None:
        """Keep the first finding of each leaf, or the first that is not close."""
        key = (finding.part, f"{finding.path} {finding.about}")
        old = self.findings.get(key)
        if old is None or (old.close and not finding.close):
            self.findings[key] = finding


class Spread:
    """The distances between two runs of the program before, for one site."""

    def __init__(self, again: CapturedRun | None) -> None:
        self._again = again
        self._known: dict[tuple[int, Part], list[float]] = {}

    def accept(
        self, finding: LeafDifference, arrays: Sequence[CapturedArray], place: int
    ) -> LeafDifference:
        """The finding; it is close if the program before is about as far from itself there.

        A leaf of few numbers may agree by chance, so the other leaves of the call count too.
        """
        apart = finding.distance
        if self._again is None or apart is None or apart.ulps is None:
            return finding
        key = finding.call, Part.INSIDE if finding.part == Part.INSIDE else Part.OUTPUTS
        if key not in self._known:
            self._known[key] = [self._distance(array, self._again) for array in arrays]
        spreads = self._known[key]
        spread = max(spreads[place], statistics.median(spreads))
        if apart.relative > FACTOR * spread:
            return finding
        what = f"{finding.what}; two runs of BEFORE differ by {spread:.3g} of it"
        return replace(finding, what=what, cause="", close=True)

    def _distance(self, array: CapturedArray, again: CapturedRun) -> float:
        """How far two runs are apart; 0 if they are equal, or if that is not known."""
        try:
            arrays = array.values(), replace(array, run=again).values()
        except CaptureError:  # it has another shape in the other run
            return 0.0
        if arrays[0] is None or arrays[1] is None:
            return 0.0
        relative = distance(arrays[0], arrays[1]).relative
        return relative if math.isfinite(relative) else 0.0
