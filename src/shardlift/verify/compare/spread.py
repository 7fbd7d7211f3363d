"""How far a program that gives other numbers in each run is from itself."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from shardlift.capture.files import CaptureError
from shardlift.capture.schema import ArrayForm, Part, Sample
from shardlift.verify.compare.array_distance import distance
from shardlift.verify.compare.captured_run import CapturedRun
from shardlift.verify.compare.verdicts import LeafDifference

FACTOR = 4.0  # two runs are one sample: a third one may be further away than they are apart


class Spread:
    """The distances between two runs of the program before, for one site."""

    def __init__(self, before: CapturedRun, site: int) -> None:
        self._runs = (before, before.again)
        self._site = site
        self._known: dict[tuple[int, Part], list[float]] = {}

    def accept(
        self, finding: LeafDifference, sample: Sample, place: int, forms: Sequence[ArrayForm]
    ) -> LeafDifference:
        """The finding; it is close if the program before is about as far from itself there.

        A leaf of few numbers may agree by chance, so the other leaves of the call count too.
        """
        apart = finding.distance
        if self._runs[1] is None or apart is None or apart.ulps is None:
            return finding
        part = Part.INSIDE if finding.part == Part.INSIDE else Part.OUTPUTS
        key = sample.call, part
        if key not in self._known:
            places = range(len(forms))
            self._known[key] = [self._distance(sample, part, k, forms[k]) for k in places]
        spreads = self._known[key]
        spread = max(spreads[place], statistics.median(spreads))
        if apart.relative > FACTOR * spread:
            return finding
        what = f"{finding.what}; two runs of BEFORE differ by {spread:.3g} of it"
        return replace(finding, what=what, cause="", close=True)

    def _distance(self, sample: Sample, part: Part, place: int, form: ArrayForm) -> float:
        """How far two runs are apart; 0 if they are equal, or if that is not known."""
        before, again = self._runs
        assert again is not None
        try:
            arrays = [run.array(self._site, sample, part, place, form) for run in (before, again)]
        except CaptureError:  # it has another shape in the other run
            return 0.0
        if arrays[0] is None or arrays[1] is None:
            return 0.0
        relative = distance(arrays[0], arrays[1]).relative
        return relative if math.isfinite(relative) else 0.0
