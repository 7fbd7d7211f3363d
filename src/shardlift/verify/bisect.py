"""Finds which rewritten places can stay: those with which the program computes the same.

`search` is given the places and a function that runs the program with some of them rewritten.
What a verdict names is backed out; where none is named, because the program fails or something
between the mapped functions differs, the places are halved until it is found. No I/O here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from shardlift.capture.schema import Capture, SiteKind
from shardlift.verify.compare.verdicts import (
    Outcome,
    SiteVerdict,
    Verdict,
    in_one_only,
    place_of,
)
from shardlift.verify.compare.verdicts import Place as Called

UNKNOWN = "the numbers of the program differ with it, or it fails"
SAME_AS_ITSELF = "it differs from itself in two runs of the program before: not comparable"


class Candidate(Protocol):
    """A change that can be made or left; it has a hash and an order."""

    @property
    def is_site(self) -> bool:
        """Whether it maps a function; others only place or read arrays."""

    @property
    def by_value(self) -> bool:
        """Whether it names pmap without calling it: the call is elsewhere."""

    def covers(self, called: Called | None) -> bool:
        """Whether this is where a function was mapped."""

    def __lt__(self, other: Any) -> bool:
        """The order of the text."""


C = TypeVar("C", bound=Candidate)


@dataclass(frozen=True)
class Trial(Generic[C]):
    """The result of a run with some of the places rewritten."""

    holds: bool
    blamed: Mapping[C, str] = field(default_factory=dict)  # and why
    problem: str = UNKNOWN  # where nobody is named


@dataclass
class Found(Generic[C]):
    """Which places may stay, which may not and why, and how many runs it took."""

    kept: frozenset[C]
    out: dict[C, str] = field(default_factory=dict)
    runs: int = 0


def search(
    places: Collection[C], attempt: Callable[[frozenset[C]], Trial[C]], most: int
) -> Found[C]:
    """The places that may stay: a run with exactly those places rewritten was identical."""
    found: Found[C] = Found(frozenset())
    found.kept = _grown(frozenset(), sorted(places), attempt, most, found)
    return found


def _grown(
    good: frozenset[C],
    candidates: Sequence[C],
    attempt: Callable[[frozenset[C]], Trial[C]],
    most: int,
    found: Found[C],
) -> frozenset[C]:
    """The good ones, and as many of the candidates as hold together with them."""
    while candidates:
        if found.runs >= most:
            found.out.update(dict.fromkeys(candidates, f"not verified within {most} runs"))
            return good
        found.runs += 1
        trial = attempt(good.union(candidates))
        if trial.holds:
            return good.union(candidates)
        blamed = {place: trial.blamed[place] for place in candidates if place in trial.blamed}
        if not blamed and len(candidates) == 1:
            blamed = {candidates[0]: trial.problem}
        if not blamed:
            first, candidates = _halves(candidates)
            good = _grown(good, first, attempt, most, found)
            continue
        found.out.update(blamed)
        candidates = [place for place in candidates if place not in blamed]
    return good


def _halves(places: Sequence[C]) -> tuple[list[C], list[C]]:
    """Sites first: a verdict would have named a wrong one, as a rule. Then file by file."""
    sites = [place for place in places if place.is_site]
    others = [place for place in places if not place.is_site]
    if sites and others:
        return sites, others
    half = len(places) // 2
    return list(places[:half]), list(places[half:])


# ---- what a comparison says of places


def trial_of(
    outcome: Outcome,
    places: Collection[C],
    unstable: Collection[str] = (),
    only_verified: bool = False,
) -> Trial[C]:
    """Whether a comparison holds, and if not, which places it names.

    ``unstable`` are sites that differ from themselves; ``only_verified`` counts what could not be
    compared as a difference.
    """
    failed = outcome.after.status != outcome.before.status
    bad = [site for site in outcome.sites if _is_bad(site, unstable, only_verified)]
    if not bad and not failed:
        return Trial(True)
    # What differs by itself comes first: others may differ because of it. In a program that
    # failed the rest was only called less often.
    sure = [site for site in bad if site.itself]
    named = sure or ([] if failed else [site for site in bad if site.itself is None])
    blamed = {
        place: reason(site)
        for site in named
        for place in places
        if place.covers(site.before) or place.covers(site.after)
    }
    return Trial(False, blamed, _problem(outcome, bad, failed))


def _is_bad(site: SiteVerdict, unstable: Collection[str], only_verified: bool) -> bool:
    if site.name in unstable:
        return only_verified
    if site.verdict == Verdict.NOT_COMPARED:
        return only_verified
    return site.verdict == Verdict.DIFFERENT or (
        site.verdict == Verdict.NOT_REACHED and in_one_only(site)
    )


def reason(site: SiteVerdict) -> str:
    """Why a site is backed out, in a sentence."""
    if site.verdict == Verdict.NOT_COMPARED:
        return f"not compared: {'; '.join(site.notes) or 'its outputs could not be read'}"
    if site.causes:
        return f"numbers differ: {site.causes[0]}"
    if site.first is not None:
        where = f"{site.first.path}: " if site.first.path else ""
        return f"numbers differ: call {site.first.call + 1}, {where}{site.first.what}"
    return "numbers differ: it is called before, and nothing like it after"


def _problem(outcome: Outcome, bad: Sequence[SiteVerdict], failed: bool) -> str:
    if failed:
        last = outcome.after.error.rstrip().rpartition("\n")[2]
        return f"the program fails with it: {last or f'status {outcome.after.status}'}"
    return reason(bad[0]).replace("numbers differ", f"numbers of {bad[0].name} differ with it", 1)


def reached(
    outcome: Outcome,
    capture: Capture,
    places: Collection[C],
    refused: Collection[Candidate] = (),
) -> dict[C, SiteVerdict | None]:
    """The sites that the program before called, each with its verdict.

    One that was only called inside of another function, and one that names pmap without calling
    it where something was mapped elsewhere, have no verdict of their own.
    """
    found: dict[C, SiteVerdict | None] = {}
    elsewhere = False
    for site in capture.sites:
        if site.samples or site.nested or site.transformed:
            called = place_of(site)
            covering = [place for place in places if place.covers(called)]
            verdict = next((one for one in outcome.sites if one.before == called), None)
            found.update(dict.fromkeys(covering, verdict))
            known = covering or any(place.covers(called) for place in refused)
            elsewhere = elsewhere or (not known and site.kind is SiteKind.PMAP)
    if elsewhere:
        found.update({p: None for p in places if p.is_site and p.by_value and p not in found})
    return found
