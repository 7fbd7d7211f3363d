"""Compares one pair of sites: their calls, and the leaves of the outputs of each call."""

import re
from collections import Counter
from collections.abc import Collection, Iterator

from shardlift.capture.layouts import same_digest, together
from shardlift.capture.pairs import LeafPairs, pair_leaves
from shardlift.capture.schema import Part, Sample, SiteKind, Values
from shardlift.report.numbers import count
from shardlift.verify.compare import verdicts
from shardlift.verify.compare.captured_run import CapturedArray, forms_of, same_values
from shardlift.verify.compare.causes import likely
from shardlift.verify.compare.collective_comparison import CollectiveComparison
from shardlift.verify.compare.leaf_comparison import Maps, identical, is_array, structure
from shardlift.verify.compare.site_pair import SamplePair, SitePair

CallKey = tuple[tuple[str, int, str], tuple[str, int, str], int]  # two sites, and a call


class SiteComparison:
    """Compares one pair of sites, call by call."""

    def __init__(self, pair: SitePair, elsewhere: Collection[CallKey] = ()) -> None:
        """``elsewhere``: calls whose inputs differ in another process of the job."""
        self.pair, self.sites, self.elsewhere = pair, pair.sites, elsewhere
        self.gaps, self.notes = pair.gaps, pair.notes
        self.collectives = CollectiveComparison(pair)
        self._output_pairs: dict[tuple[int, int], LeafPairs] = {}
        self.leaves = self.calls = 0
        kinds = [site.kind for site in self.sites]
        is_pmap = kinds[0] is SiteKind.PMAP, kinds[1] is SiteKind.PMAP
        self.maps = Maps(pair.devices, is_pmap)

    def verdict(self) -> verdicts.SiteVerdict:
        """Compare all calls."""
        before, after = (site.samples for site in self.sites)
        for left, right in zip(before, after, strict=False):
            self._compare_call(left, right)
        if len(before) != len(after):
            what = f"{len(before)} calls before, {len(after)} after"
            first = min(len(before), len(after))
            self.pair.add(verdicts.LeafDifference("", first, Part.CALLS, what))
        for site in self.sites:
            self.notes.update(dict.fromkeys(f"not seen: {text}" for text in site.unseen))
            if site.transformed and site.kind is SiteKind.PMAP:
                self.gaps[verdicts.GapKind.TRANSFORMED, ""] += site.transformed
        verdict = self._verdict()
        is_different = verdict is verdicts.Verdict.DIFFERENT
        causes = explain(self.pair.findings.values(), self.pair.itself, self.pair.inputs)
        return verdicts.SiteVerdict(
            verdict,
            verdicts.place_of(self.sites[0], self.pair.runs[0].capture),
            verdicts.place_of(self.sites[1], self.pair.runs[1].capture),
            calls=self.calls,
            leaves=self.leaves,
            collectives=self.collectives.results,
            collective_calls=self.collectives.calls,
            differing_calls=self.pair.differing,
            findings=tuple(self.pair.findings.values()),
            causes=tuple(causes) if is_different else (),
            notes=tuple(self.notes),
            gaps=tuple(verdicts.Gap(*gap, count) for gap, count in self.gaps.items()),
            outputs_only=all(s.inside is None and not s.hidden for s in (*before, *after)),
            itself=self.pair.itself,
        )

    def _verdict(self) -> verdicts.Verdict:
        counted = self.pair.findings.values()
        if any(not finding.close for finding in counted):
            return verdicts.Verdict.DIFFERENT
        kinds = {kind for kind, _ in self.gaps}
        if kinds & {verdicts.GapKind.OUTPUTS_NOT_READ, verdicts.GapKind.NO_BYTES} or not self.calls:
            return verdicts.Verdict.NOT_COMPARED
        # What one device cannot show is said, and takes nothing from what was compared. A jit of
        # the whole batch has no collectives in its text: its outputs say it all.
        kinds -= {verdicts.GapKind.ONE_DEVICE}
        if self.sites[1].kind is SiteKind.JIT:
            kinds -= {verdicts.GapKind.ONLY_BEFORE}
        if kinds:
            return verdicts.Verdict.PARTLY_COMPARED
        return verdicts.Verdict.CLOSE if counted else verdicts.Verdict.IDENTICAL

    # ---- a call

    def _compare_call(self, left: Sample, right: Sample) -> None:
        if left.failed or right.failed:
            self._compare_errors(left, right)
            return
        old, new = left.outputs, right.outputs
        if old is None or new is None or not (old.digests or new.digests):
            self.gaps[verdicts.GapKind.OUTPUTS_NOT_READ, ""] += 1
            return
        same_inputs = self._same_inputs(left, right)
        bad = self._compare_outputs((left, right), self._pair_outputs(old, new))
        self.calls += 1
        self.pair.differing += bad
        if bad:
            self.pair.itself = self.pair.itself or same_inputs
        if bad and not same_inputs:
            self.notes["in some calls the inputs differ too, so the outputs do"] = None
            self._explain_inputs(left, right)
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
        self.pair.differing += 1
        self.pair.add(verdicts.LeafDifference("", left.call, Part.CALLS, what))
        self.pair.itself = self.pair.itself or self._same_inputs(left, right)

    def _compare_outputs(self, samples: SamplePair, paired: LeafPairs) -> bool:
        """Compare the outputs of a call. Returns whether they differ."""
        before, after = self.pair.arrays(samples, Part.OUTPUTS)
        call = samples[0].call
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
            self.pair.add(verdicts.LeafDifference(path, call, Part.OUTPUTS, what))
        bad = bool(alone)
        for i, j in paired.pairs:
            finding = self._compare_leaf(call, before[i], after[j])
            if finding is not None:
                self.pair.add(finding)
                bad = bad or not finding.close
        return bad

    def _pair_outputs(self, left: Values, right: Values) -> LeafPairs:
        """Pair the outputs of all calls of these forms as in the first: a mistake may show late."""
        key = left.forms, right.forms
        if key not in self._output_pairs:
            forms = self.sites[0].forms[left.forms], self.sites[1].forms[right.forms]
            self._output_pairs[key] = pair_leaves(
                *forms, lambda i, j: same_digest(left.digests[i], right.digests[j])
            )
        return self._output_pairs[key]

    def _compare_leaf(
        self, call: int, before: CapturedArray, after: CapturedArray
    ) -> verdicts.LeafDifference | None:
        """Compare one leaf; None if it is identical."""
        forms, digests = (before.form, after.form), (before.digest, after.digest)
        path, part = before.form.path, Part.OUTPUTS
        if not any(digests):
            if is_array(before.form):
                self.gaps[verdicts.GapKind.NO_BYTES, f"{path} ({before.form.dtype})"] += 1
            else:
                self.notes[f"{path} ({before.form.dtype}) was not compared: it is no array"] = None
            return None
        self.leaves += 1
        mismatch = structure(*forms, self.maps)
        if mismatch is not None:
            what, cause = mismatch
            return verdicts.LeafDifference(path, call, part, what, cause=cause)
        if identical(forms, digests, self.maps):
            return None
        arrays = self.pair.values(before, after)
        if arrays is None:
            what = "differs; the values were not kept (--keep-bytes)"
            return verdicts.LeafDifference(path, call, part, what)
        return self.pair.measure(call, part, arrays, forms)

    def _explain_inputs(self, left: Sample, right: Sample) -> None:
        """Explain the first inputs that differ."""
        inputs = self.pair.arrays((left, right), Part.INPUTS)
        if self.pair.inputs or not all(inputs):
            return
        for i, j in pair_leaves(*forms_of(inputs)).pairs:
            before, after = inputs[0][i], inputs[1][j]
            forms, digests = (before.form, after.form), (before.digest, after.digest)
            if structure(*forms, self.maps) or identical(forms, digests, self.maps):
                continue
            arrays = self.pair.values(before, after)
            self.pair.inputs = f"{before.form.path}, in call {left.call + 1}"
            if arrays is not None:
                aligned = together(*arrays, (before.form.axis, after.form.axis))
                if cause := likely(*aligned, self.pair.devices):
                    self.pair.inputs += f": {cause}"
            return


def explain(
    findings: Collection[verdicts.LeafDifference], itself: bool | None = None, inputs: str = ""
) -> Iterator[str]:
    """The likely causes, each once.

    ``itself``: whether the function itself differs; ``inputs``: its first inputs that differ.
    """
    far = [finding for finding in findings if not finding.close]
    inside = [finding for finding in far if finding.part == Part.INSIDE]
    for cause, number in _count_causes(inside).items():
        lines = {finding.about for finding in inside if finding.cause == cause}
        is_one_line = number == len(inside) and len(lines) == 1
        what = f"every array of {lines.pop()}" if is_one_line else count(number, "collective")
        yield f"{what}: {cause}"
    if not inside and (itself or not inputs):  # of other inputs it is no cause
        yield from _of_outputs([f for f in far if f.part == Part.OUTPUTS])
    if not itself and inputs and far:
        yield f"its inputs differ: {inputs}"


def _of_outputs(outputs: Collection[verdicts.LeafDifference]) -> Iterator[str]:
    """What the outputs of the first differing call look like."""
    first = min((finding.call for finding in outputs), default=0)
    early = [finding for finding in outputs if finding.call == first]
    for cause, number in _count_causes(early).items():
        leaves = "leaf" if len(outputs) == 1 else "leaves"
        yield f"{number} of {len(outputs)} differing {leaves}: {cause}"


def _count_causes(findings: Collection[verdicts.LeafDifference]) -> Counter[str]:
    return Counter(finding.cause for finding in findings if finding.cause)
