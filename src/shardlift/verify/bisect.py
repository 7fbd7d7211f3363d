"""Finds the changes that can be kept: those with which the program computes the same numbers.

`search` takes the changes and a function that runs the program with some of them. A change that a
verdict names is undone. If no verdict names one, because the program fails or something between
the mapped functions differs, the changes are halved until one is found. No I/O here.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardlift.capture.schema import Capture, SiteKind
from shardlift.report.numbers import count
from shardlift.verify.compare.verdicts import (
    WANTING,
    ProgramVerdict,
    SitePlace,
    SiteVerdict,
    place_of,
)
from shardlift.verify.verdict_text import gap_lines

UNKNOWN = "the numbers of the program differ with it, or it fails"
SAME_AS_ITSELF = "not comparable: it differs between two runs of the program before"


SiteId = tuple[str, int, str, SiteKind]


@dataclass(frozen=True, order=True)
class Candidate:
    """A change that can be made or not. They are ordered as in the source."""

    file: str  # as captures name it
    id: Any  # what identifies the change
    lines: tuple[tuple[int, int], ...] = field(compare=False)  # the first and last ones of sites
    is_site: bool = field(default=True, compare=False)  # it does not only place or read arrays
    by_value: bool = field(default=False, compare=False)  # it names pmap without calling it

    def covers(self, called: SitePlace | None) -> bool:
        """Whether a function was mapped by this change."""
        if called is None or called.file != self.file:
            return False
        return any(first <= called.line <= last for first, last in self.lines)


def identity(site: SiteVerdict) -> SiteId:
    """Identifies a site in several comparisons with one program before: by place, not by name.

    Functions of one name in one line share it.
    """
    place = site.before or site.after
    assert place is not None, "a site is in one of the programs"
    return place.file, place.line, place.function, place.kind


def unstable_sites(again: ProgramVerdict) -> set[SiteId]:
    """The sites that differ between two runs of one program."""
    return {identity(site) for site in again.sites if site.differs}


@dataclass(frozen=True)
class Trial:
    """The result of a run with some of the changes."""

    holds: bool
    blamed: Mapping[Candidate, str] = field(default_factory=dict)  # the reason for each
    problem: str = UNKNOWN  # the reason if no change is blamed


@dataclass
class Search:
    """A search for the changes to keep; ``most`` is the largest number of runs."""

    attempt: Callable[[frozenset[Candidate]], Trial]
    most: int
    begin_bisection: Callable[[int], None]  # is told how many runs are left
    kept: frozenset[Candidate] = frozenset()  # a run with exactly these changes was identical
    out: dict[Candidate, str] = field(default_factory=dict)  # the others, and why
    runs: int = 0

    def add(self, candidates: Sequence[Candidate]) -> None:
        """Keep all candidates but those that are found to be wrong."""
        while candidates:
            trial = self._try(candidates)
            if trial is not None and trial.holds:
                self.kept = frozenset(candidates)
                return
            wrong = trial and (_blamed(trial, candidates) or self._bisect(candidates, trial))
            if not wrong:
                reason = f"not verified within {count(self.most, 'run')}"
                rest = [place for place in candidates if place not in self.kept]
                self.out.update(dict.fromkeys(rest, reason))
                return
            self.out.update(wrong)
            if not self.kept.isdisjoint(wrong):
                self.kept = frozenset()  # what is left of it was not run without them
            candidates = [place for place in candidates if place not in wrong]

    def _bisect(self, candidates: Sequence[Candidate], trial: Trial) -> Mapping[Candidate, str]:
        """A change with which the others do not hold, by halves; none if there are no runs left."""
        suspects = [place for place in candidates if place not in self.kept]
        if len(suspects) > 1:
            self.begin_bisection(self.most - self.runs)
        while len(suspects) > 1:
            half = len(suspects) // 2
            first, second = suspects[:half], suspects[half:]
            attempt = self._try([*self.kept, *first])
            if attempt is None:
                return {}
            if attempt.holds:
                self.kept, suspects = self.kept.union(first), second
                continue
            trial, suspects = attempt, first
            if named := _blamed(trial, suspects):
                return named
        return {suspects[0]: trial.problem}

    def _try(self, candidates: Sequence[Candidate]) -> Trial | None:
        if self.runs >= self.most:
            return None
        self.runs += 1
        return self.attempt(frozenset(candidates))


def search(
    places: Collection[Candidate],
    attempt: Callable[[frozenset[Candidate]], Trial],
    most: int,
    begin_bisection: Callable[[int], None] = lambda _: None,
) -> Search:
    """Find the changes to keep, in at most ``most`` runs."""
    result = Search(attempt, most, begin_bisection)
    # Sites first: a verdict usually names a wrong one, so that halves of both kinds say less.
    result.add(sorted(places, key=lambda place: (not place.is_site, place)))
    return result


def runs_needed(places: Collection[Candidate]) -> int:
    """The runs that find one wrong change, and show that the others hold without it.

    >>> [runs_needed("x" * number) for number in (1, 2, 8, 9)]
    [3, 4, 6, 7]
    """
    return 1 + math.ceil(math.log2(max(len(places), 1))) + 2


def _blamed(trial: Trial, candidates: Sequence[Candidate]) -> dict[Candidate, str]:
    return {place: trial.blamed[place] for place in candidates if place in trial.blamed}


# ---- the changes that a comparison blames


def trial_of(
    outcome: ProgramVerdict,
    places: Collection[Candidate],
    unstable: Collection[SiteId] = (),
    only_verified: bool = False,
) -> Trial:
    """Whether a comparison holds, and if not, which changes it blames.

    ``unstable`` are sites that differ between two runs of one program. With ``only_verified``,
    sites that could not be compared wholly count as different.
    """
    failed = outcome.after.status != outcome.before.status
    bad = [
        site
        for site in outcome.sites
        if (
            only_verified if identity(site) in unstable or site.verdict in WANTING else site.differs
        )
    ]
    if not bad and not failed:
        return Trial(True)
    # Sites that differ on equal inputs come first: others may differ because of them. If the
    # program failed, others only have fewer calls.
    sure = [site for site in bad if site.itself]
    named = sure or ([] if failed else [site for site in bad if site.itself is None])
    blamed = {
        place: reason(site)
        for site in named
        for place in places
        if place.covers(site.before or site.after)  # lines after may be other ones
    }
    if failed:
        last = outcome.after.error.rstrip().rpartition("\n")[2]
        problem = f"the program fails with it: {last or f'status {outcome.after.status}'}"
    else:
        differ = f"numbers of {bad[0].name} differ with it"
        problem = reason(bad[0]).replace("numbers differ", differ, 1)
    return Trial(False, blamed, problem)


def reason(site: SiteVerdict) -> str:
    """Why the change of a site is undone."""
    if site.verdict in WANTING:
        return f"{site.verdict}: {'; '.join(gap_lines(site)) or 'its outputs could not be read'}"
    if site.causes:
        return f"numbers differ: {site.causes[0]}"
    if site.first is not None:
        where = f"{site.first.path}: " if site.first.path else ""
        return f"numbers differ: call {site.first.call + 1}, {where}{site.first.what}"
    return "numbers differ: it is called before, and not after"


def reached(
    outcome: ProgramVerdict,
    capture: Capture,
    places: Collection[Candidate],
    refused: Collection[Candidate] = (),
) -> dict[Candidate, SiteVerdict | None]:
    """The changes whose sites the program before called, each with its verdict.

    A site that was only called inside another function has no verdict of its own. Neither has a
    change that names pmap without calling it, if a function was mapped elsewhere.
    """
    verdicts: dict[Candidate, SiteVerdict | None] = {}
    elsewhere = False
    for site in capture.sites:
        if site.samples or site.nested or site.transformed:
            called = place_of(site, capture)
            covering = [place for place in places if place.covers(called)]
            verdict = next((v for v in outcome.sites if v.before == called), None)
            verdicts.update(dict.fromkeys(covering, verdict))
            known = covering or any(place.covers(called) for place in refused)
            elsewhere = elsewhere or (not known and site.kind is SiteKind.PMAP)
    if elsewhere:
        unnamed = [place for place in places if place.is_site and place.by_value]
        verdicts = {**dict.fromkeys(unnamed), **verdicts}
    return verdicts
