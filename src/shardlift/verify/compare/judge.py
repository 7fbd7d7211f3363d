"""Compares two captures: one verdict per site."""

from __future__ import annotations

from shardlift.capture.schema import Capture, Site, SiteKind
from shardlift.verify.compare.bits import Tolerance
from shardlift.verify.compare.pairs import pair
from shardlift.verify.compare.recorded import Recorded
from shardlift.verify.compare.site_comparison import UNDER, SiteComparison
from shardlift.verify.compare.verdicts import Place, SiteVerdict, Verdict, place_of


def judge(
    before: Recorded, after: Recorded, tolerance: Tolerance | None = None
) -> list[SiteVerdict]:
    """The verdicts: of pairs in the order of the program before, then of sites in one only."""
    tolerance = tolerance or Tolerance()
    left, right = before.capture.sites, after.capture.sites
    pairs = pair(left, right)
    found = [SiteComparison(before, after, i, j, tolerance).verdict() for i, j in pairs]
    alone = {i for i, _ in pairs}, {j for _, j in pairs}
    for k, site in enumerate(left):
        if k not in alone[0] and site.kind is SiteKind.PMAP:
            found += _without_partner(site, right)
    for k, site in enumerate(right):
        if k not in alone[1] and site.samples and site.kind is not SiteKind.JIT:
            found.append(SiteVerdict(Verdict.NOT_REACHED, None, place_of(site)))
    return found


def passed_over(before: Capture, after: Capture) -> list[str]:
    """Sites of jit in one program only: parts of something else in the other, as a rule."""
    pairs = pair(before.sites, after.sites)
    taken = {i for i, _ in pairs}, {j for _, j in pairs}
    found = []
    for name, capture, used in (("before", before, taken[0]), ("after", after, taken[1])):
        alone = [
            f"{site.function} ({site.file}:{site.line})"
            for k, site in enumerate(capture.sites)
            if k not in used and site.kind is SiteKind.JIT and site.samples
        ]
        if alone:
            listed = ", ".join(alone[:4]) + (f" and {len(alone) - 4} more" * (len(alone) > 4))
            found.append(f"jit functions only {name}, not compared: {listed}")
    return found


def _without_partner(site: Site, others: tuple[Site, ...]) -> list[SiteVerdict]:
    """The verdict of a site without a partner; none if it was only called inside others."""
    if site.samples or not (site.nested or site.transformed):
        return [SiteVerdict(Verdict.NOT_REACHED, place_of(site), _namesake(site, others))]
    if not site.transformed:
        return []
    return [
        SiteVerdict(Verdict.NOT_COMPARED, place_of(site), _namesake(site, others), notes=(UNDER,))
    ]


def _namesake(site: Site, others: tuple[Site, ...]) -> Place | None:
    same = [one for one in others if one.function == site.function and not one.samples]
    return place_of(same[0]) if same else None
