"""Compares one pair of sites: their calls, and the leaves of the outputs of each call."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations

from shardlift.capture.layouts import Array, same_arrays, same_digest, together
from shardlift.capture.leaf_pairs import LeafPairs, pair_leaves
from shardlift.capture.schema import ArrayForm, ArrayRole, Part, Sample, SiteKind, Values
from shardlift.capture.site_pairs import Pairs
from shardlift.verify.compare import causes, key_and_index_checks
from shardlift.verify.compare.array_distance import ROUNDING, Tolerance, distance, within
from shardlift.verify.compare.captured_run import CapturedRun
from shardlift.verify.compare.collective_results import (
    ArrayPair,
    CollectiveResult,
    cause_of,
    difference,
    factors_of,
    have_same_numbers,
    matters,
    same_factors,
)
from shardlift.verify.compare.explanation import Clues, explain
from shardlift.verify.compare.leaf_comparison import (
    Maps,
    identical,
    is_array,
    structure,
    words,
)
from shardlift.verify.compare.pairs import pair_collectives
from shardlift.verify.compare.spread import Spread
from shardlift.verify.compare.verdicts import (
    Gap,
    GapKind,
    LeafDifference,
    SiteVerdict,
    Verdict,
    place_of,
)

_OUTPUTS = (GapKind.OUTPUTS_NOT_READ, GapKind.NO_BYTES)  # not even the outputs were compared
CallKey = tuple[tuple[str, int, str], tuple[str, int, str], int]  # two sites, and a call
# Of the two programs:
SamplePair = tuple[Sample, Sample]
FormPair = tuple[ArrayForm, ArrayForm]
FormLists = tuple[tuple[ArrayForm, ...], tuple[ArrayForm, ...]]
Places = tuple[int, int]  # of a leaf in the lists of forms
MOST_CALLS = 200  # differing calls of a site whose values are compared


class SiteComparison:
    """Compares one pair of sites, call by call."""

    def __init__(
        self,
        before: CapturedRun,
        after: CapturedRun,
        i: int,
        j: int,
        tolerance: Tolerance,
        elsewhere: Collection[CallKey] = (),
    ) -> None:
        """``elsewhere``: calls whose inputs differ in another process of the job."""
        self.sides, self.numbers, self.tolerance = (before, after), (i, j), tolerance
        self.sites = before.capture.sites[i], after.capture.sites[j]
        self.elsewhere, self.spread = elsewhere, Spread(before, i)
        self.devices = max(site.axis_size for site in self.sites)
        self.findings: dict[tuple[Part, str], LeafDifference] = {}
        self.notes: dict[str, None] = {}
        self._output_pairs: dict[tuple[int, int], LeafPairs] = {}
        self.gaps: Counter[tuple[GapKind, str]] = Counter()
        self.leaves = self.collectives = self.differing = self.calls = 0
        self.collective_calls = 0
        kinds = [site.kind for site in self.sites]
        is_pmap = kinds[0] is SiteKind.PMAP, kinds[1] is SiteKind.PMAP
        self.maps = Maps(self.devices, is_pmap)
        is_whole = kinds == [SiteKind.PMAP, SiteKind.JIT] and self.devices > 1
        self.clues = Clues(whole_batch=is_whole)

    def verdict(self) -> SiteVerdict:
        """Compare all calls."""
        for left, right in zip(self.sites[0].samples, self.sites[1].samples, strict=False):
            self._compare_call(left, right)
        self._compare_counts()
        for site in self.sites:
            self.notes.update(dict.fromkeys(f"not seen: {text}" for text in site.unseen))
            if site.transformed and site.kind is SiteKind.PMAP:
                self.gaps[GapKind.TRANSFORMED, ""] += sum(site.transformed.values())
        verdict = self._verdict()
        is_different = verdict is Verdict.DIFFERENT
        return SiteVerdict(
            verdict,
            place_of(self.sites[0]),
            place_of(self.sites[1]),
            calls=self.calls,
            leaves=self.leaves,
            collectives=self.collectives,
            collective_calls=self.collective_calls,
            replays=self.clues.replays,
            differing_calls=self.differing,
            findings=tuple(self.findings.values()),
            causes=tuple(explain(self.findings.values(), self.clues)) if is_different else (),
            notes=tuple(self.notes),
            gaps=tuple(Gap(*gap, count) for gap, count in self.gaps.items()),
            outputs_only=not any(_asked(call) for site in self.sites for call in site.samples),
            itself=self.clues.itself,
        )

    def _verdict(self) -> Verdict:
        counted = [f for f in self.findings.values() if f.part != Part.REPLAYED]
        if any(not finding.close for finding in counted):
            return Verdict.DIFFERENT
        unread = any(kind in _OUTPUTS for kind, _ in self.gaps)
        if unread or not self.calls:
            return Verdict.NOT_COMPARED
        if any(not self._is_expected(kind) for kind, _ in self.gaps):
            return Verdict.PARTLY_COMPARED
        return Verdict.CLOSE if counted else Verdict.IDENTICAL

    def _is_expected(self, gap: GapKind) -> bool:
        """A jit of the whole batch has no collectives in its text: its outputs say it all.

        What one device cannot show is said, and takes nothing from what was compared.
        """
        is_whole_batch = gap is GapKind.ONLY_BEFORE and self.sites[1].kind is SiteKind.JIT
        return is_whole_batch or gap is GapKind.ONE_DEVICE

    def _compare_counts(self) -> None:
        left, right = (len(site.samples) for site in self.sites)
        if left != right:
            self._add(
                LeafDifference(
                    "", min(left, right), Part.CALLS, f"{left} calls before, {right} after"
                )
            )

    # ---- a call

    def _compare_call(self, left: Sample, right: Sample) -> None:
        if left.failed or right.failed:
            self._compare_errors(left, right)
            return
        if left.outputs is None or right.outputs is None:
            self.gaps[GapKind.OUTPUTS_NOT_READ, ""] += 1
            return
        same_inputs = self._same_inputs(left, right)
        if not (left.outputs.digests or right.outputs.digests):
            self._compare_without_outputs(left, right)
            return
        bad = self._compare_outputs(left, right, Part.OUTPUTS, right.outputs)
        self.calls += 1
        self.differing += bad
        self.clues.own |= bad and same_inputs
        if bad and not same_inputs:
            self.notes["in some calls the inputs differ too, so the outputs do"] = None
            self._explain_inputs(left, right)
        if bad and same_inputs:
            self._find_exchanged_arguments(left.inputs, right.inputs)
            self._find_exchanged_outputs(left.outputs, right.outputs)
        if same_inputs or not bad:
            self._compare_inside(left, right)
        if right.replayed is not None:
            self.clues.replays += 1
            bad = self._compare_outputs(left, right, Part.REPLAYED, right.replayed)
            self.clues.differing_replays += bad

    def _same_inputs(self, left: Sample, right: Sample) -> bool:
        """Whether all processes gave the same inputs to a call in both programs."""
        key = self.sites[0].key, self.sites[1].key, left.call
        return key not in self.elsewhere and same_inputs(left, right)

    def _compare_errors(self, left: Sample, right: Sample) -> None:
        """Compare two calls if one of them, or both, raised an error."""
        self.calls += 1
        if left.failed and right.failed:
            if _without_addresses(left.error) == _without_addresses(right.error):
                self.notes["calls that raise the same error in both programs are equal"] = None
                return
            what = f"the call raised {left.error} before, and {right.error} after"
        else:
            error = left.error or right.error
            which = "before" if left.failed else "after"
            what = f"the call raised an error {which}{f': {error}' * bool(error)}"
        self.differing += 1
        self._add(
            LeafDifference("", left.call, Part.CALLS, what, cause=causes.of_error(right.error))
        )
        self.clues.own |= self._same_inputs(left, right)

    def _compare_without_outputs(self, left: Sample, right: Sample) -> None:
        """Compare the inputs of a call without outputs, which prints or calls back to the host."""
        if left.inputs is None or right.inputs is None:
            self.gaps[GapKind.OUTPUTS_NOT_READ, ""] += 1
            return
        self.calls += 1
        if not _same_arrays(left.inputs, right.inputs):
            what = "it has no outputs, and its inputs differ"
            self._add(LeafDifference("", left.call, Part.CALLS, what))
            self.differing += 1
        self._compare_inside(left, right)

    def _find_exchanged_arguments(self, before: Values | None, after: Values | None) -> None:
        """Find pairs of arguments that have each other's values."""
        if before is None or after is None:
            return
        forms = self._forms(0, before), self._forms(1, after)
        pairs = pair_leaves(*forms).pairs
        for i, k in exchanged(pairs, before.digests, after.digests):
            paths = f"{forms[0][i].path} and {forms[0][k].path}"
            self.clues.arguments[f"{paths} have each other's values"] = None

    def _find_exchanged_outputs(self, before: Values, after: Values) -> None:
        """Find pairs of outputs that have each other's values."""
        pairs = self._pair_outputs(before.forms, after.forms).pairs
        for i, k in exchanged(pairs, before.digests, after.digests):
            paths = [self._forms(0, before)[place].path for place in (i, k)]
            self.clues.exchanged.update(paths)
            self.clues.arguments[f"{' and '.join(paths)} have each other's values"] = None

    def _forms(self, side: int, values: Values) -> tuple[ArrayForm, ...]:
        return self.sites[side].forms[values.forms]

    def _compare_outputs(self, left: Sample, right: Sample, part: Part, values: Values) -> bool:
        assert left.outputs is not None
        forms = self._forms(0, left.outputs), self._forms(1, values)
        paired = self._pair_outputs(left.outputs.forms, values.forms)
        for i, j in paired.pairs:
            if forms[0][i].path != forms[1][j].path:
                renamed = f"{forms[0][i].path} before is compared with {forms[1][j].path} after"
                by_order = ", by their order" * ((i, j) in paired.by_order)
                self.notes[f"outputs have other names: {renamed}{by_order}"] = None
        alone = [("before", forms[0][k].path) for k in paired.before]
        alone += [("after", forms[1][k].path) for k in paired.after]
        for which, path in alone:
            self._add(LeafDifference(path, left.call, part, f"this output is only {which}"))
        bad = bool(alone)
        for i, j in paired.pairs:
            digests = left.outputs.digests[i], values.digests[j]
            pair_forms = forms[0][i], forms[1][j]
            finding = self._compare_leaf((left, right), part, (i, j), pair_forms, digests)
            if finding is not None:
                self._add(finding)
                bad = bad or not finding.close
        return bad

    def _pair_outputs(self, before: int, after: int) -> LeafPairs:
        """Pair the outputs of all calls that have these forms; equal are those that always are."""
        if (before, after) not in self._output_pairs:
            digests = [
                (left.outputs.digests, right.outputs.digests)
                for left, right in zip(*(site.samples for site in self.sites), strict=False)
                if left.outputs is not None and left.outputs.forms == before
                if right.outputs is not None and right.outputs.forms == after
            ]

            def same(i: int, j: int) -> bool:
                return all(same_digest(old[i], new[j]) for old, new in digests)

            forms = self.sites[0].forms[before], self.sites[1].forms[after]
            self._output_pairs[before, after] = pair_leaves(*forms, same)
        return self._output_pairs[before, after]

    def _compare_leaf(
        self,
        samples: SamplePair,
        part: Part,
        places: Places,
        forms: FormPair,
        digests: tuple[str, str],
    ) -> LeafDifference | None:
        """Compare one leaf; None if it is identical."""
        path, call = forms[0].path, samples[0].call
        if not digests[0] and not digests[1]:
            if is_array(forms[0]):
                self.gaps[GapKind.NO_BYTES, f"{path} ({forms[0].dtype})"] += 1
            else:
                self.notes[f"{path} ({forms[0].dtype}) was not compared: it is no array"] = None
            return None
        self.leaves += part == Part.OUTPUTS
        mismatch = structure(*forms, self.maps)
        if mismatch is not None:
            return LeafDifference(path, call, part, mismatch[0], cause=mismatch[1])
        if identical(forms, digests, self.maps):
            return None
        arrays = self._arrays(samples, part, places, forms)
        if arrays is None:
            what = "differs; the values were not kept (--keep-bytes)"
            return LeafDifference(path, call, part, what)
        finding = self._compare_arrays(path, call, part, arrays, forms)
        outputs = samples[0].outputs
        assert outputs is not None, "outputs are compared with outputs"
        own_forms = self._forms(0, outputs)
        return finding and self.spread.accept(finding, samples[0], places[0], own_forms)

    def _arrays(
        self, samples: SamplePair, part: Part, places: Places, forms: FormPair
    ) -> ArrayPair | None:
        if self.differing >= MOST_CALLS:
            return None
        parts = (part, part) if part in (Part.INSIDE, Part.INPUTS) else (Part.OUTPUTS, part)
        left, right = (
            side.array(number, sample, name, place, form)
            for side, number, sample, name, place, form in zip(
                self.sides, self.numbers, samples, parts, places, forms, strict=True
            )
        )
        return None if left is None or right is None else (left, right)

    def _compare_arrays(
        self, path: str, call: int, part: Part, arrays: ArrayPair, forms: FormPair
    ) -> LeafDifference | None:
        left, right, axis = together(*arrays, (forms[0].axis, forms[1].axis))
        apart = distance(left, right)
        if apart.identical:
            return None
        close = bool(self.tolerance) and within(left, right, self.tolerance)
        is_rounded = within(left, right, ROUNDING)
        cause = causes.LikelyCause()
        if not close and not is_rounded:
            cause = causes.likely(left, right, axis, self.devices)
            if not cause.text and part == Part.OUTPUTS:
                cause = self._cause_of_update(path, call, left, right)
        what, about = words(apart), forms[0].about
        return LeafDifference(path, call, part, what, apart, cause[0], close, about, cause[1])

    def _cause_of_update(
        self, path: str, call: int, left: Array, right: Array
    ) -> causes.LikelyCause:
        """The cause if the update of an input is too large or too small."""
        site, sample = self.sites[0], self.sites[0].samples[call]
        if sample.inputs is None:
            return causes.LikelyCause()
        forms = site.forms[sample.inputs.forms]
        fits = [k for k, form in enumerate(forms) if form.shape == left.shape]
        for k in sorted(fits, key=lambda k: -_common_end(forms[k].path, path))[:3]:
            start = self.sides[0].array(self.numbers[0], sample, Part.INPUTS, k, forms[k])
            factor = None if start is None else causes.update_factor(start, left, right)
            if factor is not None and causes.is_of_devices(factor, self.devices):
                words = f"the update is {causes.words_for(factor, self.devices)}"
                return causes.LikelyCause(words)
        return causes.LikelyCause()

    # ---- collectives

    def _compare_inside(self, left: Sample, right: Sample) -> None:
        """Compare what the collectives of a call exchange, as far as it was recorded."""
        for name, sample in (("before", left), ("after", right)):
            if sample.hidden:
                what = f"{name}: {sample.hidden}"
                self.gaps[GapKind.COLLECTIVES_NOT_RECORDED, what] += 1
        if left.inside is not None and right.inside is not None:
            self._compare_collectives(left, right, left.inside, right.inside)
            return
        sides = ("before", left, right, 1), ("after", right, left, 0)
        for name, own, other, number in sides:
            has_results = other.inside is not None and any(
                form.role is ArrayRole.RESULT for form in self._forms(number, other.inside)
            )
            if own.inside is None and not own.hidden and has_results:
                what = f"{name}: call {own.call + 1} runs a program that is new in the other only"
                self.gaps[GapKind.COLLECTIVES_NOT_RECORDED, what] += 1

    def _compare_collectives(
        self, left: Sample, right: Sample, before: Values, after: Values
    ) -> None:
        """Compare results of collectives up to rounding: outputs show other differences."""
        forms = self._forms(0, before), self._forms(1, after)
        pairs, *alone = pair_collectives(*forms, (before.digests, after.digests))
        samples = left, right
        self._compare_keys_and_indices(samples, forms)
        for which, text in key_and_index_checks.only_one(*forms, alone):
            self.clues.collectives[text] = which
        if not (left.hidden or right.hidden):
            self._note_alone(samples, forms, alone)
        far: list[tuple[int, int, LeafDifference]] = []
        compared = self.collectives
        for i, j in pairs:
            digests = before.digests[i], after.digests[j]
            finding = self._compare_result(samples, (i, j), forms, digests)
            if finding is not None:
                far.append((i, j, finding))
        self.collective_calls += self.collectives > compared
        if self.devices == 1 and self.collectives > compared:
            self.gaps[GapKind.ONE_DEVICE, ""] += 1
        for finding in self._without_exchanged(samples, far, forms):
            self.clues.own = True
            self._add(finding)

    def _note_alone(
        self, samples: SamplePair, forms: FormLists, alone: Sequence[Sequence[int]]
    ) -> None:
        """Note the results without a partner, but for those that the other side has elsewhere."""
        before = [
            i
            for i in alone[0]
            if not any(self._is_equal(samples, (i, j), forms) for j in range(len(forms[1])))
        ]
        after = [
            j
            for j in alone[1]
            if not any(self._is_equal(samples, (i, j), forms) for i in range(len(forms[0])))
        ]
        rest = [forms[0][k] for k in before if matters(forms[0][k])]
        more = [forms[1][k] for k in after if matters(forms[1][k])]
        for kind in sorted({form.collective for form in (*rest, *more)}):
            if self._is_regrouped(samples, forms, (before, after), kind):
                continue
            for gap, side in ((GapKind.ONLY_BEFORE, rest), (GapKind.ONLY_AFTER, more)):
                self.gaps.update((gap, _name(form)) for form in side if form.collective == kind)

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
        self.collectives += len(sides[0])
        return True

    def _compare_result(
        self,
        samples: SamplePair,
        places: Places,
        forms: FormLists,
        digests: tuple[str, str],
    ) -> LeafDifference | None:
        """Compare the results of two collectives; None if they are equal or cannot be compared."""
        self.collectives += 1
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
            self.collectives -= 1
            self.gaps[GapKind.VALUES_NOT_KEPT, _name(left)] += 1
            return None
        arrays = difference(*results, self.devices)
        if arrays is None:
            return None
        finding = self._compare_arrays(path, call, Part.INSIDE, arrays, (left, right))
        if finding is not None:
            finding = self.spread.accept(finding, samples[0], places[0], forms[0])
        if finding is None or finding.close:
            return None
        cause = cause_of(*results, arrays, _backward_change(forms), self.devices)
        return dataclasses.replace(finding, cause=cause, suspicion=None) if cause else finding

    def _results(
        self, samples: SamplePair, places: Places, forms: FormLists
    ) -> tuple[CollectiveResult, CollectiveResult] | None:
        """The results of two collectives, with the factors of their uses, if they were kept."""
        left, right = (self._result(k, samples[k], places[k], forms[k]) for k in (0, 1))
        return None if left is None or right is None else (left, right)

    def _result(
        self, side: int, sample: Sample, place: int, forms: Sequence[ArrayForm]
    ) -> CollectiveResult | None:
        if self.differing >= MOST_CALLS:
            return None

        def array_of(place: int) -> Array | None:
            run, site = self.sides[side], self.numbers[side]
            return run.array(site, sample, Part.INSIDE, place, forms[place])

        array, at = array_of(place), factors_of(forms, place)
        factors = None if at is None else array_of(at)
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
        return results is not None and difference(*results, self.devices) is None

    def _compare_keys_and_indices(self, samples: SamplePair, forms: FormLists) -> None:
        """Compare keys and indices: they show why numbers differ, not whether."""
        for i, j in key_and_index_checks.pair_keys_and_indices(*forms):
            arrays = self._arrays(samples, Part.INSIDE, (i, j), (forms[0][i], forms[1][j]))
            cause = key_and_index_checks.cause(forms[0][i], *arrays) if arrays else ""
            if cause:
                self.clues.keys_and_indices[cause] = None

    def _explain_inputs(self, left: Sample, right: Sample) -> None:
        """Explain the first inputs that differ."""
        if self.clues.inputs or left.inputs is None or right.inputs is None:
            return
        forms = self._forms(0, left.inputs), self._forms(1, right.inputs)
        for i, j in pair_leaves(*forms).pairs:
            pair_forms = forms[0][i], forms[1][j]
            digests = left.inputs.digests[i], right.inputs.digests[j]
            if structure(*pair_forms, self.maps) or identical(pair_forms, digests, self.maps):
                continue
            arrays = self._arrays((left, right), Part.INPUTS, (i, j), pair_forms)
            self.clues.inputs = f"{pair_forms[0].path}, in call {left.call + 1}"
            if arrays is not None:
                axes = pair_forms[0].axis, pair_forms[1].axis
                if cause := causes.likely(*together(*arrays, axes), self.devices).text:
                    self.clues.inputs += f": {cause}"
            return

    def _add(self, finding: LeafDifference) -> None:
        key = (finding.part, f"{finding.path} {finding.about}")
        old = self.findings.get(key)
        if old is None or (old.close and not finding.close):
            self.findings[key] = finding


def _backward_change(forms: FormLists) -> int:
    """How many collectives more than before the backward pass has."""
    before, after = (sum(f.backward and f.role is ArrayRole.RESULT for f in side) for side in forms)
    return after - before


def exchanged(pairs: Pairs, before: Sequence[str], after: Sequence[str]) -> Iterator[Places]:
    """Pairs of leaves that have each other's values; the digests are those of the two programs."""
    moved = [(i, j) for i, j in pairs if not same_digest(before[i], after[j])]
    for (i, j), (k, n) in combinations(moved, 2):
        if same_digest(before[i], after[n]) and same_digest(before[k], after[j]):
            yield i, k


def same_inputs(left: Sample, right: Sample) -> bool:
    """Whether two calls had the same inputs."""
    return _same_arrays(left.inputs, right.inputs)


def _name(form: ArrayForm) -> str:
    """The name of a collective: ``psum: grads = lax.pmean(grads, "i")``."""
    what = form.collective + " (backward pass)" * form.backward
    return f"{what}: {form.about}" if form.about else what


def _without_addresses(error: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x", error)


def _asked(sample: Sample) -> bool:
    """Whether the collectives of a call were to be recorded."""
    return sample.inside is not None or bool(sample.hidden)


def _same_arrays(before: Values | None, after: Values | None) -> bool:
    if before is None or after is None:
        return False
    return same_arrays(before.digests, after.digests)


def _common_end(left: str, right: str) -> int:
    """The number of characters that two paths have in common at their ends."""
    pairs = zip(reversed(left), reversed(right), strict=False)
    return next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
