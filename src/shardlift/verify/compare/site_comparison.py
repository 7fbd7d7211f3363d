"""Compares one pair of sites: calls, then the leaves of their outputs."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from itertools import combinations

from shardlift.capture.layouts import Array, same_arrays, same_digest, together
from shardlift.capture.schema import ArrayRole, Form, Part, Sample, SiteKind, Values
from shardlift.verify.compare import causes, key_and_index_checks
from shardlift.verify.compare.bits import Tolerance, distance, within
from shardlift.verify.compare.leaves import identical, is_array, nearly, structure, words
from shardlift.verify.compare.pairs import pair_collectives, pair_leaves
from shardlift.verify.compare.recorded import Recorded
from shardlift.verify.compare.verdicts import Finding, SiteVerdict, Verdict, place_of

VMA = (
    "check_vma with unvarying parameters: shard_map has summed the gradient over the devices "
    "already when it comes to this line"
)
UNDER = (
    "called under grad, vmap or the like, outside of any jit or pmap: such calls are not on tape"
)
WHOLE = (
    "after, it is a jit of the whole batch and no shard_map: means, variances (batch statistics) "
    "and random keys are those of the whole, where each device had its own"
)
NO_VMA = "the backward pass sums less over the devices than it did"
MOST_CALLS = 200  # of a site, that differ, whose values are compared


class SiteComparison:
    """Compares one pair of sites, call by call."""

    def __init__(
        self, before: Recorded, after: Recorded, i: int, j: int, tolerance: Tolerance
    ) -> None:
        self.sides, self.numbers, self.tolerance = (before, after), (i, j), tolerance
        self.sites = before.capture.sites[i], after.capture.sites[j]
        self.devices = max(site.axis_size for site in self.sites)
        self.findings: dict[tuple[Part, str], Finding] = {}
        self.notes: dict[str, None] = {}
        self.leaves = self.collectives = self.replays = self.differing = self.bad_replays = 0
        self.uncompared = self.calls = 0
        self.own = False  # a call differs that was given the same
        self.told: dict[str, None] = {}  # causes that are seen in the calls, not in their outputs
        self.exchanged: dict[str, None] = {}  # collectives of one program only
        self.exchanged_arguments: dict[str, None] = {}
        self.drifted = ""  # what is the matter with the first inputs that differ

    def verdict(self) -> SiteVerdict:
        """Compare everything."""
        for left, right in zip(self.sites[0].samples, self.sites[1].samples, strict=False):
            self._call(left, right)
        self._counts()
        for site in self.sites:
            self.notes.update(dict.fromkeys(f"not seen: {text}" for text in site.unseen))
            if site.transformed and site.kind is SiteKind.PMAP:
                self.notes[UNDER] = None
        return SiteVerdict(
            self._word(),
            place_of(self.sites[0]),
            place_of(self.sites[1]),
            calls=self.calls,
            leaves=self.leaves,
            collectives=self.collectives,
            replays=self.replays,
            differing_calls=self.differing,
            findings=tuple(self.findings.values()),
            causes=tuple(self._causes()),
            notes=tuple(self.notes),
            itself=self._itself(),
        )

    def _itself(self) -> bool | None:
        if self.own or self.bad_replays:
            return True
        return False if self.replays else None

    def _word(self) -> Verdict:
        counted = [one for one in self.findings.values() if one.part != Part.REPLAYED]
        if any(not one.close for one in counted):
            return Verdict.DIFFERENT
        if self.uncompared or not self.leaves:
            return Verdict.NOT_COMPARED
        return Verdict.CLOSE if counted else Verdict.IDENTICAL

    def _counts(self) -> None:
        left, right = (len(site.samples) for site in self.sites)
        if left != right:
            self._add(
                Finding("", min(left, right), Part.CALLS, f"{left} calls before, {right} after")
            )

    # ---- a call

    def _call(self, left: Sample, right: Sample) -> None:
        if left.failed or right.failed:
            if left.failed != right.failed:
                which = "before" if left.failed else "after"
                error = left.error or right.error
                what = f"the call raised an error {which}{f': {error}' * bool(error)}"
                cause = causes.of_error(error)
                self._add(Finding("", left.call, Part.CALLS, what, cause=cause))
                self.own |= _same_arrays(left.inputs, right.inputs)
            return
        if left.outputs is None or right.outputs is None:
            self.uncompared += 1
            self.notes["calls whose outputs could not be read: nothing is said of them"] = None
            return
        same_inputs = _same_arrays(left.inputs, right.inputs)
        bad = self._outputs(left, right, Part.OUTPUTS, right.outputs)
        self.calls += 1
        self.differing += bad
        self.own |= bad and same_inputs
        if bad and not same_inputs:
            self.notes["from some call on the inputs differ too, so the outputs must"] = None
            self._inputs(left, right)
        if bad and same_inputs:
            self._exchanged_arguments(left.inputs, right.inputs)
        if left.inside is not None and right.inside is not None and same_inputs:
            self._inside(left, right, left.inside, right.inside)
        if right.replayed is not None:
            self.replays += 1
            self.bad_replays += self._outputs(left, right, Part.REPLAYED, right.replayed)

    def _exchanged_arguments(self, before: Values | None, after: Values | None) -> None:
        """Arguments of one name that hold what another one held before."""
        if before is None or after is None:
            return
        forms = self._forms(0, before), self._forms(1, after)
        old, new = before.digests, after.digests
        moved = [(i, j) for i, j in pair_leaves(*forms)[0] if not same_digest(old[i], new[j])]
        for (i, j), (k, n) in combinations(moved, 2):
            if same_digest(old[i], new[n]) and same_digest(old[k], new[j]):
                paths = f"{forms[0][i].path} and {forms[0][k].path}"
                self.exchanged_arguments[f"{paths} are in each other's place"] = None

    def _forms(self, side: int, values: Values) -> tuple[Form, ...]:
        return self.sites[side].forms[values.forms]

    def _outputs(self, left: Sample, right: Sample, part: Part, values: Values) -> bool:
        assert left.outputs is not None
        forms = self._forms(0, left.outputs), self._forms(1, values)
        pairs, missing, more = pair_leaves(*forms)
        for paths, which in ((missing, "before"), (more, "after")):
            for path in paths:
                self._add(Finding(path, left.call, part, f"only {which}: there is no such output"))
        bad = bool(missing or more)
        for i, j in pairs:
            digests = left.outputs.digests[i], values.digests[j]
            found = self._leaf((left, right), part, (i, j), (forms[0][i], forms[1][j]), digests)
            if found is not None:
                self._add(found)
                bad = bad or not found.close
        return bad

    def _leaf(
        self,
        samples: tuple[Sample, Sample],
        part: Part,
        places: tuple[int, int],
        forms: tuple[Form, Form],
        digests: tuple[str, str],
    ) -> Finding | None:
        """Compare one leaf; None: it is identical."""
        path, call = forms[0].path, samples[0].call
        if not digests[0] and not digests[1]:
            self.notes[f"{path} ({forms[0].dtype}) was not compared: its bytes were not there"] = (
                None
            )
            self.uncompared += is_array(forms[0])
            return None
        self.leaves += part == Part.OUTPUTS
        wrong = structure(*forms)
        if wrong:
            return Finding(path, call, part, *wrong[:1], cause=wrong[1])
        if identical(forms, digests):
            return None
        arrays = self._arrays(samples, part, places, forms)
        if arrays is None:
            what = "not the same; the values were not kept (--keep-bytes)"
            return Finding(path, call, part, what)
        return self._compared(path, call, part, arrays, forms)

    def _arrays(
        self,
        samples: tuple[Sample, Sample],
        part: Part,
        places: tuple[int, int],
        forms: tuple[Form, Form],
    ) -> tuple[Array, Array] | None:
        if self.differing >= MOST_CALLS:
            return None
        parts = (part, part) if part in (Part.INSIDE, Part.INPUTS) else (Part.OUTPUTS, part)
        found = [
            side.array(number, sample, name, place, form)
            for side, number, sample, name, place, form in zip(
                self.sides, self.numbers, samples, parts, places, forms, strict=True
            )
        ]
        return None if found[0] is None or found[1] is None else (found[0], found[1])

    def _compared(
        self,
        path: str,
        call: int,
        part: Part,
        arrays: tuple[Array, Array],
        forms: tuple[Form, Form],
    ) -> Finding | None:
        left, right, axis = together(*arrays, (forms[0].axis, forms[1].axis))
        apart = distance(left, right)
        if apart.identical:
            return None
        close = bool(self.tolerance) and within(left, right, self.tolerance)
        cause = "" if close else causes.likely(left, right, axis, self.devices)
        if not cause and not close and part == Part.OUTPUTS:
            cause = self._update(path, call, left, right)
        return Finding(path, call, part, words(apart), apart, cause, close, forms[0].about)

    def _update(self, path: str, call: int, left: Array, right: Array) -> str:
        """Is it the update of an input that is too large or too small?"""
        site, sample = self.sites[0], self.sites[0].samples[call]
        if sample.inputs is None:
            return ""
        forms = site.forms[sample.inputs.forms]
        fits = [k for k, form in enumerate(forms) if form.shape == left.shape]
        for k in sorted(fits, key=lambda k: -_common_end(forms[k].path, path))[:3]:
            given = self.sides[0].array(self.numbers[0], sample, Part.INPUTS, k, forms[k])
            factor = None if given is None else causes.update_factor(given, left, right)
            if factor is not None and causes.is_of_devices(factor, self.devices):
                return "the update is " + causes.words_for(factor, self.devices)
        return ""

    # ---- collectives

    def _inside(self, left: Sample, right: Sample, before: Values, after: Values) -> None:
        """Results of collectives: scale and sign, not the last bits, which no output shows."""
        forms = self._forms(0, before), self._forms(1, after)
        self._telling(left, right, forms)
        for i, j in pair_collectives(*forms):
            if key_and_index_checks.is_telling(forms[0][i]):
                continue
            self.collectives += 1
            pair_forms = forms[0][i], forms[1][j]
            digests = before.digests[i], after.digests[j]
            if pair_forms[0].role is ArrayRole.OPERAND or identical(pair_forms, digests):
                continue
            if structure(*pair_forms):
                continue
            arrays = self._arrays((left, right), Part.INSIDE, (i, j), pair_forms)
            if arrays is None or nearly(*together(*arrays)[:2]):
                continue
            found = self._compared(pair_forms[0].path, left.call, Part.INSIDE, arrays, pair_forms)
            if found is not None and not found.close:
                self.own = True
                self._add(self._with_cause(found, forms, *together(*arrays)[:2]))

    def _telling(
        self, left: Sample, right: Sample, forms: tuple[tuple[Form, ...], tuple[Form, ...]]
    ) -> None:
        """Keys, indices and collectives that are not the same: why, not whether, numbers differ."""
        for i, j in key_and_index_checks.pairs(*forms):
            arrays = self._arrays((left, right), Part.INSIDE, (i, j), (forms[0][i], forms[1][j]))
            said = key_and_index_checks.cause(forms[0][i], *arrays) if arrays else ""
            self.told.update({said: None} if said else {})
        self.exchanged.update(dict.fromkeys(key_and_index_checks.only_one(*forms)))

    def _inputs(self, left: Sample, right: Sample) -> None:
        """Explain the first inputs that differ."""
        if self.drifted or left.inputs is None or right.inputs is None:
            return
        forms = self._forms(0, left.inputs), self._forms(1, right.inputs)
        for i, j in pair_leaves(*forms)[0]:
            pair_forms = forms[0][i], forms[1][j]
            digests = left.inputs.digests[i], right.inputs.digests[j]
            if structure(*pair_forms) or identical(pair_forms, digests):
                continue
            arrays = self._arrays((left, right), Part.INPUTS, (i, j), pair_forms)
            if arrays is not None:
                one, other, axis = together(*arrays, (pair_forms[0].axis, pair_forms[1].axis))
                said = causes.likely(one, other, axis, self.devices)
                self.drifted = f"{pair_forms[0].path}, in call {left.call + 1}: {said}" * bool(said)
            if self.drifted:
                return

    def _with_cause(
        self,
        found: Finding,
        forms: tuple[tuple[Form, ...], tuple[Form, ...]],
        before: Array,
        after: Array,
    ) -> Finding:
        """A gradient that was summed before it came to this line is shard_map's own doing."""
        count = [sum(one.backward and one.role is ArrayRole.RESULT for one in f) for f in forms]
        factor = causes.constant_factor(before, after)
        if factor is None or count[0] == count[1]:
            return found
        why = f"{causes.size_of(factor)}: {VMA if count[1] > count[0] else NO_VMA}"
        return dataclasses.replace(found, cause=why)

    # ---- what is said

    def _add(self, finding: Finding) -> None:
        key = (finding.part, f"{finding.path} {finding.about}")
        old = self.findings.get(key)
        if old is None or (old.close and not finding.close):
            self.findings[key] = finding

    def _causes(self) -> Iterator[str]:
        """The causes, each once, with what it applies to; those of collectives first."""
        far = [one for one in self.findings.values() if not one.close]
        if not far:
            return
        yield from self._seen()
        yield from dict.fromkeys(one.cause for one in far if one.part == Part.CALLS and one.cause)
        first = min((one.call for one in far if one.part == Part.OUTPUTS), default=None)
        grouped: Counter[tuple[Part, str]] = Counter()
        for one in far:
            if one.cause and (one.part != Part.OUTPUTS or one.call == first):
                grouped[(one.part, one.cause)] += 1
        totals = Counter(one.part for one in far)
        for (part, cause), count in sorted(grouped.items(), key=lambda item: item[0][0]):
            if part == Part.INSIDE:
                lines = sorted({one.about for one in far if (one.part, one.cause) == (part, cause)})
                what = f"every array of {lines[0]}" if len(lines) == 1 else f"{count} collectives"
                every = count == sum(one.part == part for one in far)
                yield f"{what if every else f'{count} collectives'}: {cause}"
            elif part == Part.OUTPUTS and not any(one.part == Part.INSIDE for one in far):
                yield f"{count} of {totals[part]} differing leaves: {cause}"
        yield from self.exchanged if self.own else ()
        if self.replays and self.bad_replays:
            yield (
                f"this function itself: on the inputs of before too, {self.bad_replays} of "
                f"{self.replays} calls gave something else"
            )
        elif self.replays:
            yield (
                f"not this function: on the inputs of the program before, {self.replays} calls "
                "gave what they gave before. Its inputs differ: "
                + (self.drifted or "look at the sites before it")
            )
        elif self.drifted and not self.own:
            yield f"its inputs differ: {self.drifted}"

    def _seen(self) -> Iterator[str]:
        """Causes that are known from the calls themselves, not from their outputs."""
        if self.own:
            yield from self.exchanged_arguments
            yield from self.told
            if [site.kind for site in self.sites] == [
                SiteKind.PMAP,
                SiteKind.JIT,
            ] and self.devices > 1:
                yield WHOLE


def _same_arrays(before: Values | None, after: Values | None) -> bool:
    if before is None or after is None:
        return False
    return same_arrays(before.digests, after.digests)


def _common_end(left: str, right: str) -> int:
    """How many characters at their ends two paths share."""
    pairs = zip(reversed(left), reversed(right), strict=False)
    return next((k for k, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
