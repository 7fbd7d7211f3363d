"""One site of each program: what was recorded of both, and what the comparison finds."""

from collections import Counter

from shardlift.capture.layouts import together
from shardlift.capture.schema import ArrayForm, Part, Sample
from shardlift.verify.compare import causes
from shardlift.verify.compare.array_distance import ROUNDING, Tolerance, distance, within
from shardlift.verify.compare.captured_run import ArrayLists, ArrayPair, CapturedArray, CapturedRun
from shardlift.verify.compare.leaf_comparison import words
from shardlift.verify.compare.verdicts import GapKind, LeafDifference

SamplePair = tuple[Sample, Sample]  # of the two programs


class SitePair:
    """A pair of sites, with the findings and gaps that were collected so far."""

    def __init__(
        self, runs: tuple[CapturedRun, CapturedRun], numbers: tuple[int, int], tolerance: Tolerance
    ) -> None:
        self.runs, self.numbers, self.tolerance = runs, numbers, tolerance
        self.sites = runs[0].capture.sites[numbers[0]], runs[1].capture.sites[numbers[1]]
        self.devices = max(site.axis_size for site in self.sites)
        self.findings: dict[tuple[Part, str], LeafDifference] = {}
        self.notes: dict[str, None] = {}
        self.gaps: Counter[tuple[GapKind, str]] = Counter()
        self.differing = 0  # calls
        self.itself: bool | None = None  # whether a call differs although its inputs are equal
        self.inputs = ""  # the first inputs that differ, and why

    def arrays(self, samples: SamplePair, part: Part) -> ArrayLists:
        """The arrays of one part of a call, in both programs."""
        left, right = (self.runs[k].arrays_of(self.numbers[k], samples[k], part) for k in (0, 1))
        return left, right

    def values(self, left: CapturedArray, right: CapturedArray) -> ArrayPair | None:
        """The values of two arrays, if both were kept."""
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
        is_rounding = close or within(left, right, ROUNDING)
        cause = "" if is_rounding else causes.likely(left, right, axis, self.devices)
        form = forms[0]
        return LeafDifference(form.path, call, part, words(apart), apart, cause, close, form.about)

    def add(self, finding: LeafDifference) -> None:
        """Keep the first finding of each leaf, or the first that is not close."""
        key = (finding.part, f"{finding.path} {finding.about}")
        old = self.findings.get(key)
        if old is None or (old.close and not finding.close):
            self.findings[key] = finding
