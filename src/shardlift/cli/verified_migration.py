"""`migrate --verify`: the program is run before and after, and what does not hold is backed out."""

from __future__ import annotations

import glob
import os
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from shardlift.capture.parts import read_whole
from shardlift.cli import transaction
from shardlift.cli.verify_options import OTHER_ORDER, VerifyOptions
from shardlift.recording.caller import shown
from shardlift.report.numbers import count
from shardlift.rewrite.changes import Change, ChangeId, Decisions
from shardlift.rewrite.engine import ProjectMigration
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.results import FileResult, Migration
from shardlift.source.model import Kind
from shardlift.verify import runs as running
from shardlift.verify.bisect import (
    SAME_AS_ITSELF,
    Search,
    SiteId,
    Trial,
    identify,
    reached,
    runs_needed,
    search,
    trial_of,
    unstable_sites,
)
from shardlift.verify.compare.array_distance import ROUNDING, Tolerance
from shardlift.verify.compare.verdicts import WANTING, ProgramVerdict, SiteVerdict
from shardlift.verify.compare.verdicts import SitePlace as Called
from shardlift.verify.output_comparison import Difference, compare_output, masked
from shardlift.verify.verdict_text import basis

# What ends a proof without a result.
ERRORS = (running.CannotRunError, transaction.WriteError)
NOT_RUN = "the command does not reach it"
ONE_OF = "the command calls a pmap that was handed on as a value, at one of"


@dataclass(frozen=True)
class PlaceResult:
    """What became of one place: verified, not reached, not or partly compared, backed out."""

    change: ChangeId
    word: str
    why: str

    @property
    def place(self) -> str:
        """`train.py:12:5`; of a notebook, whose changes go together, its name."""
        path, line, column, _ = self.change
        return f"{path}:{line}:{column + 1}" if line else path


@dataclass(frozen=True)
class VerifiedMigration:
    """What may be written, what is known of each site, and the last comparison that held."""

    migration: Migration
    results: tuple[PlaceResult, ...]
    runs: int
    outcome: ProgramVerdict | None = None
    notes: tuple[str, ...] = ()

    def count(self, word: str) -> int:
        """How many places had this result."""
        return sum(result.word == word for result in self.results)


@dataclass(frozen=True, order=True)
class ChangeCandidate:
    """A change that is made if the numbers hold."""

    file: str  # as captures name it
    id: ChangeId
    change: Change = field(compare=False)

    @property
    def is_site(self) -> bool:
        """Whether it maps a function; others only place or read arrays."""
        return self.id.kind in (Kind.SITE, Kind.VALUE)

    @property
    def by_value(self) -> bool:
        """Whether pmap is handed on here, and called elsewhere."""
        return self.id.kind is Kind.VALUE

    def covers(self, called: Called | None) -> bool:
        """Whether a function was mapped by this change."""
        if called is None or called.file != self.file:
            return False
        if not self.id.line:
            return True  # the changes of a notebook go together
        return any(first <= called.line <= last for first, last in self.change.sites)


def verify_migration(
    project: ProjectMigration,
    contents: transaction.Contents,
    root: str,
    options: VerifyOptions,
    goal: Goal,
    verbose: bool,
    tell: running.Tell,
) -> VerifiedMigration:
    """Run the program before and after, back out what differs, until the rest holds."""
    assert options.verify is not None
    given = options.tolerance or (OTHER_ORDER if goal is Goal.JIT else None)
    default = ROUNDING if goal is Goal.GLOBAL else Tolerance()
    tolerance = Tolerance(**given) if given else default  # type: ignore[arg-type]
    settings = running.ComparisonOptions(
        tolerance=tolerance,
        devices=options.devices,
        processes=options.processes or 1,
        verbose=verbose,
        facts=project.lacks_facts,
    )
    with tempfile.TemporaryDirectory(prefix="shardlift-") as folder:
        command = running.parse_target(options.verify)
        only_verified = goal is Goal.JIT
        verifier = _Verifier(
            project, contents, root, command, settings, only_verified, folder, tell
        )
        return verifier.verified()


@dataclass
class _Verifier:
    project: ProjectMigration
    contents: transaction.Contents
    root: str  # of the project
    command: running.RunSource
    settings: running.ComparisonOptions
    only_verified: bool  # whether to back out, too, what the command does not reach
    folder: str
    tell: running.Tell
    # Whether plain python does not run the program after, and `shardlift run` does.
    patch: bool | None = None
    holding: tuple[dict[str, str], ProgramVerdict] | None = None  # the texts of a run that held
    runs: int = 0
    most: int = 0
    seconds: float | None = None  # of the last run
    notes: dict[str, None] = field(default_factory=dict)
    refused: list[ChangeCandidate] = field(default_factory=list)
    # What differs between two runs of the program before, if it had to be run once more.
    unstable_sites: set[SiteId] = field(default_factory=set)
    unstable_output: tuple[Difference, ...] = ()
    other_words: tuple[Difference, ...] = ()  # of the last run that held

    def verified(self) -> VerifiedMigration:
        if self.settings.facts:
            self.project.use_facts([read_whole(self.before.path)])
        full = self.project.render()
        places = [candidate for file in full.files for candidate in _candidates(file)]
        self.refused = [_candidate(change) for file in full.files for change in file.refused]
        if not places:
            return VerifiedMigration(full, (), 0)
        search_result, decisions = self._left(places)
        migration = self.project.render(decisions)  # the texts of the run that held, with reasons
        outcome = self.holding[1] if self.holding else None
        results = tuple(self._results(places, search_result, outcome))
        notes = (*self.notes, *self._output_notes(), *self._hint(migration))
        return VerifiedMigration(migration, results, self.runs, outcome, notes)

    def _hint(self, migration: Migration) -> Iterable[str]:
        """What another goal would do with what is known from this run."""
        if arrays := self.project.count_global_arrays():
            helper = "the helper and " if migration.helper_modules else ""
            axes = f"the device axis of {count(arrays, 'array')}"
            yield f"with this run, --to global would remove {helper}{axes}"

    # ---- the program before

    @cached_property
    def before(self) -> running.Run:
        path = os.path.join(self.folder, "before.json")
        run = running.record(self.command, self.settings, path, self.tell)
        if run.side.status:
            said = f"the command ended with status {run.side.status} before anything was changed"
            self.notes[f"{said}; what it did until then is compared"] = None
        return run

    @cached_property
    def unstable(self) -> tuple[set[SiteId], tuple[Difference, ...]]:
        """What differs if the program before is run once more: it cannot be compared."""
        path = os.path.join(self.folder, "again.json")
        tell = lambda text: self.tell(f"{text} (once more)")  # noqa: E731
        again = running.record(self.command, self.settings, path, tell)
        return unstable_sites(self._judged(again)), tuple(self._differences(again))

    # ---- which places stay

    def _left(self, places: list[ChangeCandidate]) -> tuple[Search[ChangeCandidate], Decisions]:
        there = self._reached(self._judged(self.before), places)
        sites = sum(place.is_site for place in places)
        called = there if sites else self.before.recorded.capture.sites
        if not called:
            side = self.before.side
            ended = f" It ended with status {side.status}:\n{side.error}" if side.status else ""
            what = f"none of the {count(sites, 'site')} that would be rewritten"
            raise running.CannotRunError(
                f"`{self.command.text}` calls {what if sites else 'no mapped function'}: there is "
                f"nothing to compare.{ended}"
            )
        unreached = {
            place: f"not verified: {NOT_RUN}"
            for place in places
            if place.is_site and place not in there and self.only_verified
        }

        def decided(kept: frozenset[ChangeCandidate], out: dict[ChangeCandidate, str]) -> Decisions:
            gone = {p: out.get(p, "not tried yet") for p in places if p not in kept}
            return Decisions({place.id: why for place, why in gone.items()})

        candidates = [place for place in places if place not in unreached]
        self.most = runs_needed(candidates)
        search_result = search(
            candidates,
            lambda kept: self._trial(decided(kept, {}), kept),
            self.most,
            lambda runs: self.tell(
                "the run does not show which change makes the difference: trying parts of them, in "
                f"at most {count(runs, 'more run')}"
            ),
        )
        search_result.out.update(unreached)
        return search_result, decided(search_result.kept, search_result.out)

    # ---- a run

    def _trial(
        self, decisions: Decisions, kept: frozenset[ChangeCandidate]
    ) -> Trial[ChangeCandidate]:
        migration = self.project.render(decisions)
        texts = {file.path: file.after for file in migration.changed}
        if self.holding is not None and texts == self.holding[0]:
            return Trial(True)  # nothing that was not run already
        changes = [self.contents.replacement(f.path, f.after) for f in migration.changed]
        self.runs += 1
        _ = self.before
        try:
            left = any(file.refused for file in migration.files)
            after = transaction.during(changes, self.root, lambda: self._after(left))
        except running.CannotRunError as error:
            last = str(error).rstrip().rpartition("\n")[2]
            return Trial(False, problem=f"the program fails with it: {last}")
        outcome = self._judged(after)
        trial = self._compared(outcome, after, kept)
        if not trial.holds and after.side.status == self.before.side.status:
            self.unstable_sites, self.unstable_output = self.unstable
            trial = self._compared(outcome, after, kept)
        if trial.holds:
            self.holding = (texts, outcome)
        return trial

    def _compared(
        self, outcome: ProgramVerdict, after: running.Run, kept: frozenset[ChangeCandidate]
    ) -> Trial[ChangeCandidate]:
        """What the functions returned, and then what the program printed and wrote."""
        trial = trial_of(outcome, kept, self.unstable_sites, self.only_verified)
        if not trial.holds:
            return trial
        differences = self._differences(after)
        for difference in differences:
            if difference.of_numbers:
                problem = f"the output of the program differs with it: {difference}"
                return Trial(False, problem=problem)
        self.other_words = tuple(differences)
        return trial

    def _differences(self, other: running.Run) -> list[Difference]:
        unstable = {output.place for output in self.unstable_output}
        tolerance = self.settings.tolerance
        return compare_output(self.before.output, other.output, tolerance, unstable)

    def _output_notes(self) -> Iterable[str]:
        """What of the output was compared, masked and left out."""
        output = self.before.output
        hidden = ", ".join(f"{name} ({n})" for name, n in masked(output).items())
        if self.other_words:
            yield "the output differs, though the numbers are the same: " + _listed(
                str(difference) for difference in self.other_words
            )
        elif hidden or self.settings.verbose:
            but = f", but for what may differ: {hidden}" if hidden else ""
            yield f"the output is the same, {output.extent}{but}"
        if self.unstable_output:
            shown = _listed(one.at for one in self.unstable_output)
            yield f"of the output, not comparable: {shown}; two runs of the program before differ"

    def _judged(self, after: running.Run) -> ProgramVerdict:
        return running.judge_runs(self.before, after, self.settings.tolerance)

    def _reached(
        self, outcome: ProgramVerdict, places: list[ChangeCandidate]
    ) -> dict[ChangeCandidate, SiteVerdict | None]:
        return reached(outcome, self.before.recorded.capture, places, self.refused)

    def _after(self, something_left: bool) -> running.Run:
        """The program after; what is left of pmap may need what JAX has removed since."""
        run = self._recorded(something_left or self.patch is True)
        failed = run.side.status != self.before.side.status
        if failed and not something_left and self.patch is None:
            again = self._recorded(True)
            self.patch = again.side.status == self.before.side.status
            if self.patch:
                self.notes[
                    "with plain python it fails, with `shardlift run` it does not: something that "
                    "is not rewritten needs what JAX has removed"
                ] = None
                return again
        return run

    def _recorded(self, patch: bool) -> running.Run:
        path = os.path.join(self.folder, "after.json")
        for old in glob.glob(f"{glob.escape(path)}*"):  # of the run before, of all its processes
            os.unlink(old)
        settings = replace(self.settings, patch_after=patch)
        tell = lambda _: self.tell(self._progress())  # noqa: E731
        began = time.monotonic()
        run = running.record(self.command, settings, path, tell, self.before)
        self.seconds = time.monotonic() - began
        return run

    def _progress(self) -> str:
        text = f"run {self.runs} of at most {self.most}: {self.command.text}"
        return text if self.seconds is None else f"{text} (the last one took {self.seconds:.0f} s)"

    # ---- what is said

    def _results(
        self,
        places: list[ChangeCandidate],
        search_result: Search[ChangeCandidate],
        outcome: ProgramVerdict | None,
    ) -> Iterable[PlaceResult]:
        there = self._reached(outcome, places) if outcome else {}
        unstable = [
            site for name, site in identify(outcome.sites if outcome else ())
            if name in self.unstable_sites
        ]  # fmt: skip
        values = sum(place.by_value for place in (*places, *self.refused))
        for place in sorted(places):
            site = there.get(place)
            if place in search_result.out:
                yield PlaceResult(place.id, "backed out", search_result.out[place])
            elif not place.is_site:
                continue
            elif place not in there:
                yield PlaceResult(place.id, "not reached", NOT_RUN)
            elif site is None and place.by_value and values > 1:
                yield PlaceResult(place.id, "not compared", f"{ONE_OF} {values} places")
            elif site is None:
                said = "as a part of what was compared"
                yield PlaceResult(place.id, "verified", said)
            elif site in unstable:
                yield PlaceResult(place.id, "not compared", SAME_AS_ITSELF)
            else:
                word = site.verdict.value if site.verdict in WANTING else "verified"
                said = f"{site.verdict}, {basis(site)}"
                yield PlaceResult(place.id, word, said)


def _candidates(file: FileResult) -> Iterable[ChangeCandidate]:
    """The changes of a file that can be left one by one; a notebook's only together."""
    seen: set[ChangeId] = set()
    for change in file.rewritten:
        # What follows from the sites goes with them.
        if change.kind is not Kind.DEVICE_AXIS and change.id not in seen:
            seen.add(change.id)
            yield _candidate(change)


def _candidate(change: Change) -> ChangeCandidate:
    return ChangeCandidate(shown(os.path.abspath(change.id.path)), change.id, change)


def _listed(texts: Iterable[str]) -> str:
    """The first of some texts, and how many more there are."""
    first = [*dict.fromkeys(texts)]
    return "; ".join(first[:3]) + (f" and {len(first) - 3} more" * (len(first) > 3))
