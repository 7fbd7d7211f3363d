"""Compares what the collectives of a pair of sites exchange, up to rounding."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from shardlift.capture.layouts import same_digest
from shardlift.capture.schema import ArrayForm, ArrayRole, Part, Sample, Values
from shardlift.verify.compare import key_and_index_checks
from shardlift.verify.compare.collective_results import (
    CollectiveResult,
    cause_of,
    difference,
    factors_of,
    have_same_numbers,
    is_sum_of,
    matters,
    same_factors,
)
from shardlift.verify.compare.pairs import pair_collectives
from shardlift.verify.compare.site_pair import FormLists, Places, SamplePair, SitePair
from shardlift.verify.compare.verdicts import GapKind, LeafDifference

_INSIDE = (Part.INSIDE, Part.INSIDE)


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
            self._compare_results(samples, left, right)
            return
        for k, name in enumerate(("before", "after")):
            if self._is_new(1 - k, samples[1 - k]) and not samples[k].hidden:
                what = f"{name}: call {samples[k].call + 1} runs a program that is new in the "
                self.pair.gaps[GapKind.COLLECTIVES_NOT_RECORDED, f"{what}other only"] += 1

    def _is_new(self, side: int, sample: Sample) -> bool:
        """Whether a call has results of a program that was never compared."""
        if sample.inside is None or sample.inside.forms in self._known[side]:
            return False
        forms = self.pair.forms(side, sample.inside)
        return any(form.role is ArrayRole.RESULT for form in forms)

    def _compare_results(self, samples: SamplePair, before: Values, after: Values) -> None:
        pair = self.pair
        forms = pair.forms(0, before), pair.forms(1, after)
        pairs, *alone = pair_collectives(*forms, (before.digests, after.digests))
        self._compare_keys_and_indices(samples, forms)
        for which, text in key_and_index_checks.only_one(*forms, alone):
            pair.clues.collectives[text] = which
        if not any(sample.hidden for sample in samples):
            self._note_alone(samples, forms, alone)
        self._note_replaced(samples, forms, alone)
        far: list[tuple[int, int, LeafDifference]] = []
        compared = self.results
        for i, j in pairs:
            digests = before.digests[i], after.digests[j]
            finding = self._compare_result(samples, (i, j), forms, digests)
            if finding is not None:
                far.append((i, j, finding))
        self.calls += self.results > compared
        if pair.devices == 1 and self.results > compared:
            pair.gaps[GapKind.ONE_DEVICE, ""] += 1
        for finding in self._without_exchanged(samples, far, forms):
            pair.clues.own = True
            pair.add(finding)

    def _note_alone(
        self, samples: SamplePair, forms: FormLists, alone: Sequence[Sequence[int]]
    ) -> None:
        """Note the results without a partner, but for those that the other side has elsewhere."""
        both = range(len(forms[0])), range(len(forms[1]))
        before = [
            i for i in alone[0] if not any(self._is_equal(samples, (i, j), forms) for j in both[1])
        ]
        after = [
            j for j in alone[1] if not any(self._is_equal(samples, (i, j), forms) for i in both[0])
        ]
        rest = [forms[0][k] for k in before if matters(forms[0][k])]
        more = [forms[1][k] for k in after if matters(forms[1][k])]
        for kind in sorted({form.collective for form in (*rest, *more)}):
            if self._is_regrouped(samples, forms, (before, after), kind):
                continue
            for gap, side in ((GapKind.ONLY_BEFORE, rest), (GapKind.ONLY_AFTER, more)):
                names = [(gap, _name(form)) for form in side if form.collective == kind]
                self.pair.gaps.update(names)

    def _note_replaced(
        self, samples: SamplePair, forms: FormLists, alone: Sequence[Sequence[int]]
    ) -> None:
        """Note collectives of two kinds whose results are outputs, each of its program only."""
        outputs = [sample.outputs for sample in samples]
        before, after = (sample.inside.digests if sample.inside else () for sample in samples)
        for i, j in ((i, j) for i in alone[0] for j in alone[1]):
            left, right = forms[0][i], forms[1][j]
            if left.collective == right.collective or left.dtype != right.dtype:
                continue
            if all(
                any(same_digest(digest, result) for digest in values.digests) == (values is own)
                for own, result in ((outputs[0], before[i]), (outputs[1], after[j]))
                for values in outputs
                if values is not None
            ):
                text = f"{right.collective} instead of {left.collective}"
                self.pair.clues.replaced[f"{text}: {right.about}" if right.about else text] = None

    def _is_regrouped(
        self, samples: SamplePair, forms: FormLists, places: tuple[list[int], list[int]], kind: str
    ) -> bool:
        """Whether the results of one kind are those of the other side, joined or split."""
        sides = []
        for k in (0, 1):
            chosen = [place for place in places[k] if forms[k][place].collective == kind]
            results = [self._result(k, samples[k], place, forms[k]) for place in chosen]
            sides.append([result for result in results if result is not None])
            if not chosen or len(sides[k]) < len(chosen):
                return False
        if not have_same_numbers(*sides):
            return False
        self.results += len(sides[0])
        return True

    def _compare_result(
        self, samples: SamplePair, places: Places, forms: FormLists, digests: tuple[str, str]
    ) -> LeafDifference | None:
        """Compare the results of two collectives; None if they are equal or cannot be compared."""
        self.results += 1
        left, right = forms[0][places[0]], forms[1][places[1]]
        path, call, about = left.path, samples[0].call, left.about
        if left.dtype != right.dtype:
            what = f"{left.dtype} before, {right.dtype} after"
            cause = "the dtype changed"
            return LeafDifference(path, call, Part.INSIDE, what, cause=cause, about=about)
        computed = any(factors_of(forms[k], places[k]) is not None for k in (0, 1))
        if not computed and same_factors(left, right) and digests[0] == digests[1]:
            return None
        results = self._results(samples, places, forms)
        if results is None:
            self.results -= 1
            self.pair.gaps[GapKind.VALUES_NOT_KEPT, _name(left)] += 1
            return None
        arrays = difference(*results, self.pair.devices)
        if arrays is None:
            return None
        finding = self.pair.measure(path, call, Part.INSIDE, arrays, (left, right))
        if finding is not None:
            finding = self.pair.spread.accept(finding, samples[0], places[0], forms[0])
        if finding is None or finding.close:
            return None
        backward = _backward_change(forms)
        if backward > 0 and not self._is_summed_before(samples[1], results[1], forms[1]):
            backward = 0
        cause = cause_of(*results, arrays, backward, self.pair.devices)
        return dataclasses.replace(finding, cause=cause, suspicion=None) if cause else finding

    def _is_summed_before(
        self, sample: Sample, result: CollectiveResult, forms: Sequence[ArrayForm]
    ) -> bool:
        """Whether a result is the sum of another one, which the backward pass has summed."""
        for k, form in enumerate(forms):
            if form.backward and form.role is ArrayRole.RESULT:
                other = self._result(1, sample, k, forms)
                if other is not None and is_sum_of(result.array, other.array):
                    return True
        return False

    def _results(
        self, samples: SamplePair, places: Places, forms: FormLists
    ) -> tuple[CollectiveResult, CollectiveResult] | None:
        """The results of two collectives, with the factors of their uses, if they were kept."""
        left, right = (self._result(k, samples[k], places[k], forms[k]) for k in (0, 1))
        return None if left is None or right is None else (left, right)

    def _result(
        self, side: int, sample: Sample, place: int, forms: Sequence[ArrayForm]
    ) -> CollectiveResult | None:
        run, site, at = self.pair.runs[side], self.pair.numbers[side], factors_of(forms, place)
        array = run.array(site, sample, Part.INSIDE, place, forms[place])
        factors = None if at is None else run.array(site, sample, Part.INSIDE, at, forms[at])
        if array is None or (at is not None and factors is None):
            return None
        return CollectiveResult(forms[place], array, factors)

    def _without_exchanged(
        self, samples: SamplePair, far: Sequence[tuple[int, int, LeafDifference]], forms: FormLists
    ) -> list[LeafDifference]:
        """The findings, without results that are equal but in another order."""
        rights = [j for _, j, _ in far]
        findings = []
        for i, _, finding in far:
            partner = next((k for k in rights if self._is_equal(samples, (i, k), forms)), None)
            if partner is None:
                findings.append(finding)
            else:
                rights.remove(partner)
        return findings

    def _is_equal(self, samples: SamplePair, places: Places, forms: FormLists) -> bool:
        """Whether two results are equal, wherever they stand."""
        left, right = forms[0][places[0]], forms[1][places[1]]
        if left.role is not ArrayRole.RESULT or right.role is not ArrayRole.RESULT:
            return False
        kinds = (left.collective, left.dtype), (right.collective, right.dtype)
        if kinds[0] != kinds[1] or math.prod(left.shape) != math.prod(right.shape):
            return False
        results = self._results(samples, places, forms)
        return results is not None and difference(*results, self.pair.devices) is None

    def _compare_keys_and_indices(self, samples: SamplePair, forms: FormLists) -> None:
        """Compare keys and indices: they show why numbers differ, not whether."""
        before, after = (s.inside.digests if s.inside else () for s in samples)
        for i, j in key_and_index_checks.pair_keys_and_indices(*forms):
            if before[i] in after and after[j] in before:  # in another order
                continue
            arrays = self.pair.arrays(samples, _INSIDE, (i, j), (forms[0][i], forms[1][j]))
            cause = key_and_index_checks.cause(forms[0][i], *arrays) if arrays else ""
            if cause:
                self.pair.clues.keys_and_indices[cause] = None


def _backward_change(forms: FormLists) -> int:
    """How many collectives more than before the backward pass has."""
    before, after = (sum(f.backward and f.role is ArrayRole.RESULT for f in side) for side in forms)
    return after - before


def _name(form: ArrayForm) -> str:
    """The name of a collective: ``psum: grads = lax.pmean(grads, "i")``."""
    what = form.collective + " (backward pass)" * form.backward
    return f"{what}: {form.about}" if form.about else what
