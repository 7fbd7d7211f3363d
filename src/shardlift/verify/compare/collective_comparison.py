"""Compares what the collectives of a pair of sites exchange, up to rounding."""

import dataclasses
import math
from collections.abc import Sequence

from shardlift.capture.layouts import same_digest
from shardlift.capture.schema import ArrayForm, ArrayRole, Part, Sample
from shardlift.verify.compare.captured_run import ArrayLists, CapturedArray, forms_of
from shardlift.verify.compare.collective_results import (
    CollectiveResult,
    cause_of,
    difference,
    factors_of,
    is_only_returned,
    is_sum_of,
    matters,
    read_result,
)
from shardlift.verify.compare.pairs import pair_collectives
from shardlift.verify.compare.site_pair import SamplePair, SitePair
from shardlift.verify.compare.verdicts import GapKind, LeafDifference


class CollectiveComparison:
    """The results of collectives of a pair of sites, call by call."""

    def __init__(self, pair: SitePair) -> None:
        self.pair = pair
        self.results = self.calls = 0  # that were compared
        # The programs of each side that were compared, known by the forms of their results.
        self._known: tuple[set[int], set[int]] = (set(), set())

    def compare(self, samples: SamplePair) -> None:
        """Compare the collectives of a call, as far as they were recorded."""
        for name, sample in zip(("before", "after"), samples, strict=True):
            if sample.hidden:
                what = f"{name}: {sample.hidden}"
                self.pair.gaps[GapKind.COLLECTIVES_NOT_RECORDED, what] += 1
        left, right = (sample.inside for sample in samples)
        if left is not None and right is not None:
            self._known[0].add(left.forms)
            self._known[1].add(right.forms)
            self._compare_results(samples)
            return
        for k, name in enumerate(("before", "after")):
            if self._is_new(1 - k, samples[1 - k]) and not samples[k].hidden:
                what = f"{name}: call {samples[k].call + 1} runs a program that is new in the "
                self.pair.gaps[GapKind.COLLECTIVES_NOT_RECORDED, f"{what}other only"] += 1

    def _is_new(self, side: int, sample: Sample) -> bool:
        """Whether a call has results of a program that was never compared."""
        if sample.inside is None or sample.inside.forms in self._known[side]:
            return False
        forms = self.pair.sites[side].forms[sample.inside.forms]
        return any(form.role is ArrayRole.RESULT for form in forms)

    def _compare_results(self, samples: SamplePair) -> None:
        pair, sides = self.pair, self.pair.arrays(samples, Part.INSIDE)
        pairs, *places = pair_collectives(*sides)
        alone = [sides[0][k] for k in places[0]], [sides[1][k] for k in places[1]]
        if not any(sample.hidden for sample in samples):
            self._note_alone(samples, sides, alone)
        far: list[tuple[CapturedArray, CapturedArray, LeafDifference]] = []
        compared = self.results
        for i, j in pairs:
            finding = self._compare_result(samples[0].call, sides, i, j)
            if finding is not None:
                far.append((sides[0][i], sides[1][j], finding))
        self.calls += self.results > compared
        if pair.devices == 1 and self.results > compared:
            pair.gaps[GapKind.ONE_DEVICE, ""] += 1
        for finding in self._without_exchanged(sides, far):
            pair.itself = True
            pair.add(finding)

    def _note_alone(self, samples: SamplePair, sides: ArrayLists, alone: ArrayLists) -> None:
        """Note the results without a partner, but for those that the other side has elsewhere."""
        before = [x for x in alone[0] if not any(self._is_equal(sides, x, y) for y in sides[1])]
        after = [y for y in alone[1] if not any(self._is_equal(sides, x, y) for x in sides[0])]
        rest = [(GapKind.ONLY_BEFORE, x.form) for x in before if not _is_output(samples[0], x)]
        rest += [(GapKind.ONLY_AFTER, y.form) for y in after if not _is_output(samples[1], y)]
        rest.sort(key=lambda gap: gap[1].collective)
        self.pair.gaps.update((gap, _name(form)) for gap, form in rest)

    def _compare_result(
        self, call: int, sides: ArrayLists, i: int, j: int
    ) -> LeafDifference | None:
        """Compare the results of two collectives; None if they are equal or cannot be compared."""
        self.results += 1
        before, after = sides[0][i], sides[1][j]
        left, right = before.form, after.form
        if left.dtype != right.dtype:
            what, cause = f"{left.dtype} before, {right.dtype} after", "the dtype changed"
            about = left.about
            return LeafDifference(left.path, call, Part.INSIDE, what, cause=cause, about=about)
        computed = factors_of(sides[0], before) or factors_of(sides[1], after)
        is_alike = not computed and {*left.uses} == {*right.uses}
        if is_alike and before.digest == after.digest:
            return None
        results = _read_results(sides, before, after)
        if results is None:
            self.results -= 1
            self.pair.gaps[GapKind.VALUES_NOT_KEPT, _name(left)] += 1
            return None
        arrays = difference(*results, self.pair.devices)
        if arrays is None:
            return None
        finding = self.pair.measure(call, Part.INSIDE, arrays, (left, right))
        if finding is None or finding.close:
            return None
        counts = [  # of the backward pass
            sum(form.backward and form.role is ArrayRole.RESULT for form in forms)
            for forms in forms_of(sides)
        ]
        is_twice = counts[0] < counts[1] and _is_summed_before(results[1], sides[1])
        cause = cause_of(*results, arrays, is_twice, self.pair.devices)
        return dataclasses.replace(finding, cause=cause) if cause else finding

    def _without_exchanged(
        self, sides: ArrayLists, far: Sequence[tuple[CapturedArray, CapturedArray, LeafDifference]]
    ) -> list[LeafDifference]:
        """The findings, without results that are equal but in another order."""
        rights = [right for _, right, _ in far]
        findings = []
        for left, _, finding in far:
            partner = next((x for x in rights if self._is_equal(sides, left, x)), None)
            if partner is None:
                findings.append(finding)
            else:
                rights.remove(partner)
        return findings

    def _is_equal(self, sides: ArrayLists, before: CapturedArray, after: CapturedArray) -> bool:
        """Whether two results are equal, wherever they stand."""
        left, right = before.form, after.form
        if left.role is not ArrayRole.RESULT or right.role is not ArrayRole.RESULT:
            return False
        kinds = (left.collective, left.dtype), (right.collective, right.dtype)
        if kinds[0] != kinds[1] or math.prod(left.shape) != math.prod(right.shape):
            return False
        results = _read_results(sides, before, after)
        return results is not None and difference(*results, self.pair.devices) is None


def _read_results(
    sides: ArrayLists, before: CapturedArray, after: CapturedArray
) -> tuple[CollectiveResult, CollectiveResult] | None:
    """The results of two collectives, with the factors of their uses, if they were kept."""
    left, right = read_result(before, sides[0]), read_result(after, sides[1])
    return None if left is None or right is None else (left, right)


def _is_summed_before(result: CollectiveResult, side: Sequence[CapturedArray]) -> bool:
    """Whether a result is the sum of another one, which the backward pass has summed."""
    backward = (x for x in side if x.form.backward and x.form.role is ArrayRole.RESULT)
    others = filter(None, (read_result(array, side) for array in backward))
    return any(is_sum_of(result.array, other.array) for other in others)


def _is_output(sample: Sample, array: CapturedArray) -> bool:
    """Whether a result matters as an output only, which is compared as such."""
    if not matters(array.form):
        return True
    outputs = sample.outputs.digests if sample.outputs else ()
    return is_only_returned(array.form) and any(same_digest(array.digest, x) for x in outputs)


def _name(form: ArrayForm) -> str:
    """The name of a collective: ``psum: grads = lax.pmean(grads, "i")``."""
    what = form.collective + " (backward pass)" * form.backward
    return f"{what}: {form.about}" if form.about else what
