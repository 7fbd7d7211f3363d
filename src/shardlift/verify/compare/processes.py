"""Merging the verdicts of the processes of one job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardlift.verify.compare.verdicts import (
    Place,
    SiteVerdict,
    Verdict,
)

WORST = [*Verdict]


def merge_verdicts(verdicts: Sequence[Sequence[SiteVerdict]]) -> list[SiteVerdict]:
    """One verdict per site: the worst of all processes, with the findings of each."""
    if len(verdicts) == 1:
        return list(verdicts[0])
    by_site: dict[object, list[tuple[int, SiteVerdict]]] = {}
    for process, sites in enumerate(verdicts):
        for site in sites:
            key = _key(site.before), _key(site.after)
            by_site.setdefault(key, []).append((process, site))
    return [_merge(parts, len(verdicts)) for parts in by_site.values()]


def _key(place: Place | None) -> object:
    return place and (place.file, place.line, place.function)


def _merge(parts: Sequence[tuple[int, SiteVerdict]], processes: int) -> SiteVerdict:
    sites = [site for _, site in parts]
    worst = min(sites, key=lambda site: WORST.index(site.verdict))
    known = [site.itself for site in sites]
    findings = tuple(
        replace(finding, what=f"process {process}: {finding.what}")
        for process, site in parts
        for finding in site.findings
    )
    notes = tuple(dict.fromkeys(note for site in sites for note in site.notes))
    if len(parts) < processes:
        listed = ", ".join(str(process) for process, _ in parts)
        notes += (f"only in process {listed} of {processes}",)
    return replace(
        worst,
        calls=max(site.calls for site in sites),
        leaves=sum(site.leaves for site in sites),
        collectives=sum(site.collectives for site in sites),
        differing_calls=max(site.differing_calls for site in sites),
        findings=findings,
        causes=tuple(dict.fromkeys(cause for site in sites for cause in site.causes)),
        notes=notes,
        gaps=tuple(dict.fromkeys(gap for site in sites for gap in site.gaps)),
        itself=True if True in known else False if False in known else None,
    )
