"""`migrate --verify`: the program is run before and after, and what does not hold is backed out."""

import glob
import os
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

from shardlift.capture.parts import read_whole
from shardlift.cli import transaction
from shardlift.cli.rewrite_options import OTHER_ORDER, Request
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
    Candidate,
    Search,
    SiteId,
    Trial,
    identity,
    reached,
    runs_needed,
    search,
    trial_of,
    unstable_sites,
)
from shardlift.verify.compare.array_distance import ROUNDING, Tolerance
from shardlift.verify.compare.verdicts import WANTING, ProgramVerdict, SiteVerdict
from shardlift.verify.output_comparison import Difference, compare_output, masked
from shardlift.verify.verdict_text import basis

# What ends a proof without a result.
ERRORS = (running.CannotRunError, transaction.WriteError)
NOT_RUN = "the command does not reach it"
ONE_OF = "the command calls a pmap that was handed on as a value, at one of"
NEEDS_PATCH = (
    "with plain python it fails, with `shardlift run` it does not: something that is not rewritten "
    "needs what JAX has removed"
)


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


Reached = dict[Candidate, SiteVerdict | None]


def verify_migration(
    project: ProjectMigration,
    contents: transaction.Contents,
    root: str,
    asked: Request,
    tell: running.Tell,
) -> VerifiedMigration:
    """Run the program before and after, back out what differs, until the rest holds."""
    assert asked.verify is not None
    given = asked.tolerance or (OTHER_ORDER if asked.goal is Goal.JIT else None)
    default = ROUNDING if asked.goal is Goal.GLOBAL else Tolerance()
    settings = running.ComparisonOptions(
        tolerance=Tolerance(**given) if given else default,  # type: ignore[arg-type]
        devices=asked.devices,
        processes=asked.processes or 1,
        verbose=asked.verbose,
        facts=project.lacks_facts,
    )
    command = running.parse_target(asked.verify)
    with tempfile.TemporaryDirectory(prefix="shardlift-") as folder:
        return _Verifier(
            project, contents, root, command, settings, asked.goal is Goal.JIT, folder, tell
        ).verified()


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
    refused: list[Candidate] = field(default_factory=list)
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
        result = self._search(places)
        migration = self.project.render(_decisions(places, result.kept, result.out))
        outcome = self.holding[1] if self.holding else None
        results = tuple(self._results(places, result, outcome))
        return VerifiedMigration(migration, results, self.runs, outcome, tuple(self._notes()))

    # ---- the program before

    @cached_property
    def before(self) -> running.Run:
        path = os.path.join(self.folder, "before.json")
        return running.record(self.command, self.settings, path, self.tell)

    @cached_property
    def unstable(self) -> tuple[set[SiteId], tuple[Difference, ...]]:
        """What differs if the program before is run once more: it cannot be compared."""
        path = os.path.join(self.folder, "again.json")
        tell = lambda text: self.tell(f"{text} (once more)")  # noqa: E731
        again = running.record(self.command, self.settings, path, tell)
        return unstable_sites(self._judge(again)), tuple(self._differences(again))

    # ---- which places stay

    def _search(self, places: list[Candidate]) -> Search:
        """The places to keep, in as few runs as that takes."""
        there = self._reached(self._judge(self.before), places)
        self._stop_if_nothing_is_called(places, there)
        unreached = {
            place: f"not verified: {NOT_RUN}"
            for place in places
            if place.is_site and place not in there and self.only_verified
        }
        candidates = [place for place in places if place not in unreached]
        self.most = runs_needed(candidates)
        result = search(
            candidates,
            lambda kept: self._trial(_decisions(places, kept, {}), kept),
            self.most,
            lambda runs: self.tell(
                "the run does not show which change makes the difference: trying parts of them, in "
                f"at most {count(runs, 'more run')}"
            ),
        )
        result.out.update(unreached)
        return result

    def _stop_if_nothing_is_called(self, places: list[Candidate], there: Reached) -> None:
        sites = sum(place.is_site for place in places)
        if there if sites else self.before.recorded.capture.sites:
            return
        side = self.before.side
        ended = f" It ended with status {side.status}:\n{side.error}" if side.status else ""
        what = f"none of the {count(sites, 'site')} that would be rewritten"
        raise running.CannotRunError(
            f"`{self.command.text}` calls {what if sites else 'no mapped function'}: there is "
            f"nothing to compare.{ended}"
        )

    # ---- a run

    def _trial(self, decisions: Decisions, kept: frozenset[Candidate]) -> Trial:
        migration = self.project.render(decisions)
        texts = {file.path: file.after for file in migration.changed}
        if self.holding is not None and texts == self.holding[0]:
            return Trial(True)  # nothing that was not run already
        changes = [self.contents.replacement(f.path, f.after) for f in migration.changed]
        self.runs += 1
        _ = self.before
        try:
            left = any(file.refused for file in migration.files)
            with transaction.replaced(changes, self.root):
                after = self._after(left)
        except running.CannotRunError as error:
            last = str(error).rstrip().rpartition("\n")[2]
            return Trial(False, problem=f"the program fails with it: {last}")
        outcome = self._judge(after)
        trial = self._compared(outcome, after, kept)
        if not trial.holds and after.side.status == self.before.side.status:
            self.unstable_sites, self.unstable_output = self.unstable
            trial = self._compared(outcome, after, kept)
        if trial.holds:
            self.holding = (texts, outcome)
        return trial

    def _compared(
        self, outcome: ProgramVerdict, after: running.Run, kept: frozenset[Candidate]
    ) -> Trial:
        """What the functions returned, and then what the program printed."""
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

    def _judge(self, after: running.Run) -> ProgramVerdict:
        return running.judge_runs(self.before, after, self.settings.tolerance)

    def _reached(self, outcome: ProgramVerdict, places: list[Candidate]) -> Reached:
        return reached(outcome, self.before.recorded.capture, places, self.refused)

    def _after(self, something_left: bool) -> running.Run:
        """The program after; what is left of pmap may need what JAX has removed since."""
        run = self._record(something_left or self.patch is True)
        failed = run.side.status != self.before.side.status
        if failed and not something_left and self.patch is None:
            again = self._record(True)
            self.patch = again.side.status == self.before.side.status
            return again if self.patch else run
        return run

    def _record(self, patch: bool) -> running.Run:
        path = os.path.join(self.folder, "after.json")
        for old in glob.glob(f"{glob.escape(path)}*"):  # of the run before, of all its processes
            os.unlink(old)
        settings = replace(self.settings, patch_after=patch)
        progress = f"run {self.runs} of at most {self.most}: {self.command.text}"
        return running.record(
            self.command, settings, path, lambda _: self.tell(progress), self.before
        )

    # ---- what is said

    def _notes(self) -> Iterable[str]:
        """How the runs ended, and what of the output was compared, masked and left out."""
        if status := self.before.side.status:
            said = f"the command ended with status {status} before anything was changed"
            yield f"{said}; what it did until then is compared"
        if self.patch:
            yield NEEDS_PATCH
        hidden = masked(self.before.output)
        if self.other_words:
            yield "the output differs, though the numbers are the same: " + _listed(
                str(difference) for difference in self.other_words
            )
        elif hidden:
            yield f"the output is the same, but for what may differ: {', '.join(hidden)}"
        if self.unstable_output:
            shown = _listed(difference.at for difference in self.unstable_output)
            yield f"of the output, not comparable: {shown}; two runs of the program before differ"

    def _results(
        self, places: list[Candidate], result: Search, outcome: ProgramVerdict | None
    ) -> Iterable[PlaceResult]:
        there = self._reached(outcome, places) if outcome else {}
        values = sum(place.by_value for place in (*places, *self.refused))
        for place in sorted(places):
            site = there.get(place)
            if place in result.out:
                yield PlaceResult(place.id, "backed out", result.out[place])
            elif not place.is_site:
                continue
            elif place not in there:
                yield PlaceResult(place.id, "not reached", NOT_RUN)
            elif site is None and place.by_value and values > 1:
                yield PlaceResult(place.id, "not compared", f"{ONE_OF} {values} places")
            elif site is None:
                yield PlaceResult(place.id, "verified", "as a part of what was compared")
            elif identity(site) in self.unstable_sites:
                yield PlaceResult(place.id, "not compared", SAME_AS_ITSELF)
            else:
                word = site.verdict.value if site.verdict in WANTING else "verified"
                yield PlaceResult(place.id, word, f"{site.verdict}, {basis(site)}")


def _decisions(
    places: Iterable[Candidate], kept: frozenset[Candidate], out: dict[Candidate, str]
) -> Decisions:
    """Leave all places but those that are kept, each with its reason."""
    return Decisions({p.id: out.get(p, "not tried yet") for p in places if p not in kept})


def _candidates(file: FileResult) -> Iterable[Candidate]:
    """The changes of a file that can be left one by one; a notebook's only together."""
    # What follows from the sites goes with them.
    changes = {c.id: c for c in reversed(file.rewritten) if c.kind is not Kind.DEVICE_AXIS}
    return map(_candidate, changes.values())


def _candidate(change: Change) -> Candidate:
    path, line, _, kind = change.id
    everywhere = ((0, sys.maxsize),)  # the changes of a notebook go together
    return Candidate(
        shown(os.path.abspath(path)),
        change.id,
        lines=change.sites if line else everywhere,
        is_site=kind in (Kind.SITE, Kind.VALUE),
        by_value=kind is Kind.VALUE,
    )


def _listed(texts: Iterable[str]) -> str:
    """The first of some texts, and how many more there are."""
    first = [*dict.fromkeys(texts)]
    return "; ".join(first[:3]) + (f" and {len(first) - 3} more" * (len(first) > 3))
