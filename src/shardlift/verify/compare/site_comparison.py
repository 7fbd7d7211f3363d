"""Compares one pair of sites: their calls, and the leaves of the outputs of each call."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from shardlift.capture.layouts import Array, same_digest, together
from shardlift.capture.leaf_pairs import LeafPairs, pair_leaves
from shardlift.capture.schema import Part, Sample, SiteKind, Values
from shardlift.capture.site_pairs import Pairs
from shardlift.verify.compare import causes
from shardlift.verify.compare.array_distance import ROUNDING, within
from shardlift.verify.compare.captured_run import ArrayLists, CapturedArray, forms_of, same_values
from shardlift.verify.compare.collective_comparison import CollectiveComparison
from shardlift.verify.compare.explanation import explain
from shardlift.verify.compare.leaf_comparison import Maps, identical, is_array, structure
from shardlift.verify.compare.site_pair import SitePair
from shardlift.verify.compare.verdicts import (
    Gap,
    GapKind,
    LeafDifference,
    SiteVerdict,
    Verdict,
    place_of,
)

_DONATED = (
    "an array is used after it was donated to an earlier call (donate_argnums), which deleted its "
    "buffer"
)
CallKey = tuple[tuple[str, int, str], tuple[str, int, str], int]  # two sites, and a call


class SiteComparison:
    """Compares one pair of sites, call by call."""

    def __init__(self, pair: SitePair, elsewhere: Collection[CallKey] = ()) -> None:
        """``elsewhere``: calls whose inputs differ in another process of the job."""
        self.pair, self.sites, self.elsewhere = pair, pair.sites, elsewhere
        self.clues, self.gaps, self.notes = pair.clues, pair.gaps, pair.notes
        self.collectives = CollectiveComparison(pair)
        self._output_pairs: dict[tuple[int, int], LeafPairs] = {}
        self.leaves = self.calls = 0
        kinds = [site.kind for site in self.sites]
        is_pmap = kinds[0] is SiteKind.PMAP, kinds[1] is SiteKind.PMAP
        self.maps = Maps(pair.devices, is_pmap)

    def verdict(self) -> SiteVerdict:
        """Compare all calls."""
        before, after = (site.samples for site in self.sites)
        for left, right in zip(before, after, strict=False):
            self._compare_call(left, right)
        if len(before) != len(after):
            what = f"{len(before)} calls before, {len(after)} after"
            first = min(len(before), len(after))
            self.pair.add(LeafDifference("", first, Part.CALLS, what))
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
            collectives=self.collectives.results,
            collective_calls=self.collectives.calls,
            differing_calls=self.pair.differing,
            findings=tuple(self.pair.findings.values()),
            causes=tuple(explain(self.pair.findings.values(), self.clues)) if is_different else (),
            notes=tuple(self.notes),
            gaps=tuple(Gap(*gap, count) for gap, count in self.gaps.items()),
            outputs_only=all(s.inside is None and not s.hidden for s in (*before, *after)),
            itself=self.clues.itself,
        )

    def _verdict(self) -> Verdict:
        counted = self.pair.findings.values()
        if any(not finding.close for finding in counted):
            return Verdict.DIFFERENT
        kinds = {kind for kind, _ in self.gaps}
        if kinds & {GapKind.OUTPUTS_NOT_READ, GapKind.NO_BYTES} or not self.calls:
            return Verdict.NOT_COMPARED
        # What one device cannot show is said, and takes nothing from what was compared. A jit of
        # the whole batch has no collectives in its text: its outputs say it all.
        kinds -= {GapKind.ONE_DEVICE}
        if self.sites[1].kind is SiteKind.JIT:
            kinds -= {GapKind.ONLY_BEFORE}
        if kinds:
            return Verdict.PARTLY_COMPARED
        return Verdict.CLOSE if counted else Verdict.IDENTICAL

    # ---- a call

    def _compare_call(self, left: Sample, right: Sample) -> None:
        if left.failed or right.failed:
            self._compare_errors(left, right)
            return
        outputs = [call.outputs for call in (left, right) if call.outputs is not None]
        if len(outputs) < 2 or not any(values.digests for values in outputs):
            self.gaps[GapKind.OUTPUTS_NOT_READ, ""] += 1
            return
        same_inputs = self._same_inputs(left, right)
        bad = self._compare_outputs(left, right)
        self.calls += 1
        self.pair.differing += bad
        self.clues.own |= bad and same_inputs
        if bad and not same_inputs:
            self.clues.other_inputs = True
            self.notes["in some calls the inputs differ too, so the outputs do"] = None
            self._explain_inputs(left, right)
        if bad and same_inputs and self.pair.differing == 1:  # later ones differ because of it
            self._find_exchanged(left, right)
        if same_inputs or not bad:
            self.collectives.compare((left, right))

    def _same_inputs(self, left: Sample, right: Sample) -> bool:
        """Whether all processes gave the same inputs to a call in both programs."""
        key = self.sites[0].key, self.sites[1].key, left.call
        return key not in self.elsewhere and same_values(left.inputs, right.inputs)

    def _compare_errors(self, left: Sample, right: Sample) -> None:
        """Compare two calls if one of them, or both, raised an error."""
        self.calls += 1
        if left.failed and right.failed:
            errors = {re.sub(r"0x[0-9a-f]+", "0x", call.error) for call in (left, right)}
            if len(errors) == 1:
                self.notes["calls that raise the same error in both programs are equal"] = None
                return
            what = f"the call raised {left.error} before, and {right.error} after"
        else:
            error = left.error or right.error
            which = "before" if left.failed else "after"
            what = f"the call raised an error {which}{f': {error}' * bool(error)}"
        cause = _DONATED if re.search("deleted|donated", right.error) else ""
        self.pair.differing += 1
        self.pair.add(LeafDifference("", left.call, Part.CALLS, what, cause=cause))
        is_own = self._same_inputs(left, right)
        self.clues.own |= is_own
        self.clues.other_inputs |= not is_own

    def _find_exchanged(self, left: Sample, right: Sample) -> None:
        """Find arguments, and outputs, that have each other's values."""
        inputs = self.pair.arrays((left, right), Part.INPUTS)
        # A wrapper may have other names, and a signature another order: both must agree.
        in_order = [(k, k) for k in range(min(map(len, inputs)))]
        self._name_exchanged((pair_leaves(*forms_of(inputs)).pairs, in_order), inputs)
        outputs = self.pair.arrays((left, right), Part.OUTPUTS)
        pairs = self._pair_outputs(left.outputs, right.outputs).pairs
        self.clues.exchanged.update(self._name_exchanged((pairs,), outputs))

    def _name_exchanged(self, pairings: Sequence[Pairs], arrays: ArrayLists) -> set[str]:
        """Note the leaves that are exchanged whichever way they are paired; returns their paths."""
        named = set[str]()
        before, after = ([array.digest for array in side] for side in arrays)
        first, *others = ([*exchanged(pairs, before, after)] for pairs in pairings)
        for group in (group for group in first if all(group in other for other in others)):
            *paths, last = (arrays[0][k].form.path for k in group)
            self.clues.arguments[f"{', '.join(paths)} and {last} have each other's values"] = None
            named |= {*paths, last}
        return named

    def _compare_outputs(self, left: Sample, right: Sample) -> bool:
        """Compare the outputs of a call. Returns whether they differ."""
        before, after = self.pair.arrays((left, right), Part.OUTPUTS)
        paired = self._pair_outputs(left.outputs, right.outputs)
        for i, j in paired.pairs:
            names = before[i].form.path, after[j].form.path
            if names[0] != names[1]:
                by_order = ", by their order" * ((i, j) in paired.by_order)
                renamed = f"{names[0]} before is compared with {names[1]} after{by_order}"
                self.notes[f"outputs have other names: {renamed}"] = None
        alone = [("before", before[k].form.path) for k in paired.before]
        alone += [("after", after[k].form.path) for k in paired.after]
        for which, path in alone:
            what = f"this output is only {which}"
            self.pair.add(LeafDifference(path, left.call, Part.OUTPUTS, what))
        bad = bool(alone)
        for i, j in paired.pairs:
            finding = self._compare_leaf(left, before[i], after[j])
            if finding is not None:
                self.pair.add(finding)
                bad = bad or not finding.close
        return bad

    def _pair_outputs(self, left: Values | None, right: Values | None) -> LeafPairs:
        """Pair the outputs of all calls that have these forms.

        Equal are those that always are, then those that once are: a mistake may show late.
        """
        assert left is not None
        assert right is not None
        before, after = left.forms, right.forms
        if (before, after) not in self._output_pairs:
            digests = [
                (left.outputs.digests, right.outputs.digests)
                for left, right in zip(*(site.samples for site in self.sites), strict=False)
                if left.outputs is not None and left.outputs.forms == before
                if right.outputs is not None and right.outputs.forms == after
            ]

            def equal_in(how_many: Callable[[Iterable[bool]], bool]) -> Callable[[int, int], bool]:
                return lambda i, j: how_many(same_digest(old[i], new[j]) for old, new in digests)

            forms = self.sites[0].forms[before], self.sites[1].forms[after]
            self._output_pairs[before, after] = pair_leaves(*forms, (equal_in(all), equal_in(any)))
        return self._output_pairs[before, after]

    def _compare_leaf(
        self, sample: Sample, before: CapturedArray, after: CapturedArray
    ) -> LeafDifference | None:
        """Compare one leaf; None if it is identical."""
        forms, digests = (before.form, after.form), (before.digest, after.digest)
        path, call, part = before.form.path, sample.call, Part.OUTPUTS
        if not any(digests):
            if is_array(before.form):
                self.gaps[GapKind.NO_BYTES, f"{path} ({before.form.dtype})"] += 1
            else:
                self.notes[f"{path} ({before.form.dtype}) was not compared: it is no array"] = None
            return None
        self.leaves += 1
        mismatch = structure(*forms, self.maps)
        if mismatch is not None:
            what, cause, suspicion = mismatch
            return LeafDifference(path, call, part, what, cause=cause, suspicion=suspicion)
        if identical(forms, digests, self.maps):
            return None
        arrays = self.pair.values(before, after)
        if arrays is None:
            what = "differs; the values were not kept (--keep-bytes)"
            return LeafDifference(path, call, part, what)
        finding = self.pair.measure(call, part, arrays, forms)
        if finding is not None and not finding.cause:
            axes = before.form.axis, after.form.axis
            cause = self._cause_of_update(finding, sample, *together(*arrays, axes))
            finding = replace(finding, cause=cause)
        return finding

    def _cause_of_update(
        self, finding: LeafDifference, sample: Sample, left: Array, right: Array, axis: int | None
    ) -> str:
        """The cause if the update of an input is too large or too small; empty if not."""
        if finding.close or within(left, right, ROUNDING):
            return ""
        inputs = self.pair.runs[0].arrays_of(self.pair.numbers[0], sample, Part.INPUTS)
        fits = [array for array in inputs if array.form.shape == left.shape]
        for array in sorted(fits, key=lambda x: -_common_end(x.form.path, finding.path))[:3]:
            start = array.values()
            factor = None if start is None else causes.update_factor(start, left, right, axis)
            if factor is not None:
                return f"the update is {causes.words_for(factor, self.pair.devices)}"
        return ""

    def _explain_inputs(self, left: Sample, right: Sample) -> None:
        """Explain the first inputs that differ."""
        inputs = self.pair.arrays((left, right), Part.INPUTS)
        if self.clues.inputs or not all(inputs):
            return
        for i, j in pair_leaves(*forms_of(inputs)).pairs:
            before, after = inputs[0][i], inputs[1][j]
            forms, digests = (before.form, after.form), (before.digest, after.digest)
            if structure(*forms, self.maps) or identical(forms, digests, self.maps):
                continue
            arrays = self.pair.values(before, after)
            self.clues.inputs = f"{before.form.path}, in call {left.call + 1}"
            if arrays is not None:
                aligned = together(*arrays, (before.form.axis, after.form.axis))
                if cause := causes.likely(*aligned, self.pair.devices)[0]:
                    self.clues.inputs += f": {cause}"
            return


def exchanged(pairs: Pairs, before: Sequence[str], after: Sequence[str]) -> Iterator[list[int]]:
    """Groups of leaves that have each other's values, from the digests of both programs."""
    moved = [(i, j) for i, j in pairs if not same_digest(before[i], after[j])]
    sources = {i: [k for k, _ in moved if same_digest(before[k], after[j])] for i, j in moved}
    while sources:
        group, place = [], next(iter(sources))
        while len(sources.get(place, ())) == 1:
            group.append(place)
            place = sources.pop(place)[0]
        if group and place == group[0]:
            yield sorted(group)
        sources.pop(place, None)


def _common_end(left: str, right: str) -> int:
    """The number of characters that two paths have in common at their ends."""
    pairs = zip(reversed(left), reversed(right), strict=False)
    return next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
