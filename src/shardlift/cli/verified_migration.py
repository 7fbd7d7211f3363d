"""`migrate --verify`: the program is run before and after, and what does not hold is backed out."""

from __future__ import annotations

import glob
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from shardlift.cli import contents as writing
from shardlift.cli import transaction
from shardlift.migrate.device_axis.rewrites import STAYS_OFF
from shardlift.migrate.engine import FileResult, Migration
from shardlift.migrate.passes import Place as Rewritten
from shardlift.source.decisions import Decisions, Where
from shardlift.source.model import Kind
from shardlift.verify import runs as running
from shardlift.verify.bisect import (
    SAME_AS_ITSELF,
    Found,
    Place,
    Trial,
    reached,
    search,
    trial_of,
)
from shardlift.verify.compare.bits import Tolerance
from shardlift.verify.compare.verdicts import (
    Outcome,
    SiteVerdict,
    Verdict,
)
from shardlift.verify.verdict_text import what_it_rests_on

# What ends a proof without a result.
ERRORS = (running.CannotRunError, transaction.WriteError)
NOT_RUN = "the command does not reach it"


@dataclass(frozen=True)
class Fate:
    """What became of one place: verified, not reached, not compared or backed out."""

    where: Where
    word: str
    why: str
    form: str = ""  # strict: it holds with check_vma=True


@dataclass(frozen=True)
class Proved:
    """What may be written, what is known of each site, and the last comparison that held."""

    migration: Migration
    fates: tuple[Fate, ...]
    runs: int
    outcome: Outcome | None = None
    notes: tuple[str, ...] = ()

    def count(self, word: str) -> int:
        """How many places had this fate."""
        return sum(fate.word == word for fate in self.fates)


@dataclass(frozen=True)
class Wanted:
    """What to prove, and how.

    `rewritten` gives the migration that follows from decisions; it reads files through `contents`.
    """

    rewritten: Callable[[Decisions], Migration]
    contents: writing.Contents
    root: str  # of the journal
    command: running.Source
    settings: running.Settings
    most_runs: int
    only_verified: bool = False
    strict_vma: bool = False


def prove(wanted: Wanted, tell: running.Tell) -> Proved:
    """Run the program before and after, back out what differs, until the rest holds."""
    with tempfile.TemporaryDirectory(prefix="shardlift-") as folder:
        return _Prover(wanted, folder, tell).proved()


class _Prover:
    def __init__(self, wanted: Wanted, folder: str, tell: running.Tell) -> None:
        self.wanted, self.folder, self.tell = wanted, folder, tell
        # Whether plain python does not run the program after, and `shardlift run` does.
        self.patch: bool | None = None
        self.settled = Decisions()  # what is decided whatever the next runs show
        self.holding: tuple[Migration, Outcome | None] | None = None
        self.runs = 0
        self.notes: dict[str, None] = {}
        self.refused: list[Place] = []

    def proved(self) -> Proved:
        full = self.wanted.rewritten(self.settled)
        places = {place: where for file in full.files for place, where in _places(file)}
        self.refused = [_place(file.path, one) for file in full.files for one in file.refused]
        if not places:
            return Proved(full, (), 0)
        found = self._left(places)
        if self.wanted.strict_vma:
            self._strict(places, found)
        migration, outcome = self.holding or (self.wanted.rewritten(self.settled), None)
        fates = tuple(self._fates(places, found, outcome))
        return Proved(migration, fates, self.runs, outcome, tuple(self.notes))

    # ---- the program before

    @cached_property
    def before(self) -> running.Run:
        path = os.path.join(self.folder, "before.json")
        run = running.record(self.wanted.command, self.wanted.settings, path, self.tell)
        if run.side.status:
            said = f"the command ended with status {run.side.status} before anything was changed"
            self.notes[f"{said}; what it did until then is compared"] = None
        return run

    @cached_property
    def unstable(self) -> set[str]:
        """Sites that differ from themselves; the program is run once more to know it."""
        path = os.path.join(self.folder, "again.json")
        settings = replace(self.wanted.settings, replay=False)
        again = running.record(
            self.wanted.command, settings, path, lambda text: self.tell(f"{text} (once more)")
        )
        sites = self._judged(again).sites
        return {
            site.name for site in sites if site.verdict not in (Verdict.IDENTICAL, Verdict.CLOSE)
        }

    # ---- which places stay

    def _left(self, places: dict[Place, Where]) -> Found:
        there = self._reached(self._judged(self.before), places)
        if not there:
            side = self.before.side
            ended = f" It ended with status {side.status}:\n{side.error}" if side.status else ""
            raise running.CannotRunError(
                f"`{self.wanted.command.text}` calls none of the {_sites(places)} that would be "
                f"rewritten: there is nothing to compare.{ended}"
            )
        unreached = {
            place: f"not verified: {NOT_RUN}"
            for place in places
            if place.is_site and place not in there and self.wanted.only_verified
        }

        def decided(kept: frozenset[Place], out: dict[Place, str]) -> Decisions:
            gone = {p: out.get(p, "not tried yet") for p in places if p not in kept}
            return Decisions({places[place]: why for place, why in gone.items()})

        candidates = [place for place in places if place not in unreached]
        found = search(candidates, lambda kept: self._trial(decided(kept, {}), kept), self._rest())
        found.out.update(unreached)
        self._settle(decided(found.kept, found.out))
        return found

    def _strict(self, places: dict[Place, Where], found: Found) -> None:
        """Those sites that hold with check_vma=True get it; the others stay as they hold."""
        sites = [place for place in found.kept if place.is_site]

        def decided(kept: frozenset[Place], out: dict[Place, str]) -> Decisions:
            loose = {places[p]: out.get(p, "not tried yet") for p in places if p not in kept}
            return replace(self.settled, strict_vma=True, loose=loose)

        strict = search(sites, lambda kept: self._trial(decided(kept, {}), kept), self._rest())
        self._settle(decided(strict.kept, strict.out))

    def _settle(self, decisions: Decisions) -> None:
        """The decisions with their reasons; the texts are those of the run that held."""
        self.settled = decisions
        migration = self.wanted.rewritten(decisions)
        self.holding = (migration, self.holding[1] if self.holding else None)

    def _rest(self) -> int:
        return max(self.wanted.most_runs - self.runs, 0)

    # ---- a run

    def _trial(self, decisions: Decisions, kept: frozenset[Place]) -> Trial:
        migration = self.wanted.rewritten(decisions)
        if self.holding is not None and _texts(migration) == _texts(self.holding[0]):
            return Trial(True)  # nothing that was not run already
        changes = [self.wanted.contents.change(f.path, f.after) for f in migration.changed]
        self.runs += 1
        _ = self.before
        try:
            left = any(file.refused for file in migration.files)
            after = transaction.during(changes, self.wanted.root, lambda: self._after(left))
        except running.CannotRunError as error:
            return Trial(False, problem=f"the program fails with it: {_last_line(str(error))}")
        outcome, strictly = self._judged(after), self.wanted.only_verified
        trial = trial_of(outcome, kept, (), strictly)
        if not trial.holds and after.side.status == self.before.side.status:
            trial = trial_of(outcome, kept, self.unstable, strictly)
        if trial.holds:
            self.holding = (migration, outcome)
        return trial

    def _judged(self, after: running.Run) -> Outcome:
        return running.judge_runs(self.before, after, self.wanted.settings.tolerance)

    def _reached(
        self, outcome: Outcome, places: dict[Place, Where]
    ) -> dict[Place, SiteVerdict | None]:
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
        settings = replace(self.wanted.settings, patch_after=patch)
        tell = lambda text: self.tell(f"{text} (run {self.runs})")  # noqa: E731
        return running.record(self.wanted.command, settings, path, tell, self.before)

    # ---- what is said

    def _fates(
        self, places: dict[Place, Where], found: Found, outcome: Outcome | None
    ) -> Iterable[Fate]:
        there = self._reached(outcome, places) if outcome else {}
        for place, where in sorted(places.items()):
            site = there.get(place)
            if place in found.out:
                yield Fate(where, "backed out", found.out[place])
            elif not place.is_site:
                continue
            elif place not in there:
                yield Fate(where, "not reached", NOT_RUN)
            elif site is None:
                said = "as a part of what was compared"
                yield Fate(where, "verified", said, self._form(where))
            elif site.name in self.__dict__.get("unstable", ()):
                yield Fate(where, "not compared", SAME_AS_ITSELF)
            else:
                word = Verdict.NOT_COMPARED if site.verdict == Verdict.NOT_COMPARED else "verified"
                said = f"{site.verdict}, {what_it_rests_on(site)}"
                yield Fate(where, word, said, self._form(where))

    def _form(self, where: Where) -> str:
        """Strict, unless it is said of the place that it could not be."""
        if not self.settled.is_strict(where) or self.holding is None:
            return ""
        off = {
            Where(file.path, place.span.line, place.span.column)
            for file in self.holding[0].files
            for place in file.refused
            if place.text.startswith(STAYS_OFF)
        }
        return "" if where in off else "strict"


def _places(file: FileResult) -> Iterable[tuple[Place, Where]]:
    """The places of a file that can be left one by one; a notebook's only together."""
    if file.path.endswith(".ipynb"):
        if file.rewritten:
            yield Place(os.path.realpath(file.path), 0, 0, 0), Where(file.path)
        return
    seen: set[Where] = set()
    for rewritten in file.rewritten:
        if rewritten.kind is Kind.DEVICE_AXIS:
            continue  # it goes with the sites that it follows from
        where = Where(file.path, rewritten.span.line, rewritten.span.column)
        if where not in seen:
            seen.add(where)
            yield _place(file.path, rewritten), where


def _place(path: str, rewritten: Rewritten) -> Place:
    span = rewritten.span
    by_value = rewritten.kind is Kind.VALUE
    is_site = by_value or rewritten.kind is Kind.SITE
    return Place(shown(path), span.line, span.column, span.end_line, is_site, by_value)


def shown(path: str) -> str:
    """A file as captures name it."""
    from shardlift.recording.caller import shown

    return shown(os.path.abspath(path))


def _texts(migration: Migration) -> dict[str, str]:
    return {file.path: file.after for file in migration.changed}


def _sites(places: Iterable[Place]) -> str:
    count = sum(place.is_site for place in places)
    return f"{count} site" if count == 1 else f"{count} sites"


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2]


def wanted(
    rewritten: Callable[..., Migration],
    contents: writing.Contents,
    root: str,
    asked: dict[str, Any],
) -> Wanted:
    """What the options of `migrate` ask for."""
    settings = running.Settings(
        tolerance=Tolerance(**(asked["tolerance"] or {})),
        devices=asked["devices"],
        processes=asked["processes"],
        verbose=asked["verbose"],
    )
    return Wanted(
        lambda decisions: rewritten(decisions=decisions),
        contents,
        root,
        running.parse_target(asked["verify"]),
        settings,
        asked["max_runs"],
        asked["only_verified"],
        asked["strict_vma"],
    )
