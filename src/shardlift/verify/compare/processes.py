"""The processes of two jobs, compared one by one, and their verdicts merged."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from shardlift.verify.compare.array_distance import Tolerance
from shardlift.verify.compare.captured_run import CapturedRun
from shardlift.verify.compare.judge import differing_inputs, judge
from shardlift.verify.compare.verdicts import Gap, GapKind, SiteVerdict, Verdict, with_gap


def judge_processes(
    pairs: Mapping[int, tuple[CapturedRun, CapturedRun]], count: int, tolerance: Tolerance
) -> list[SiteVerdict]:
    """Compare each process before with the same one after; ``count`` is the number of all."""
    if count == 1:
        (pair,) = pairs.values()
        return judge(*pair, tolerance)
    # A collective brings other inputs of one process to all of them.
    elsewhere = {key for pair in pairs.values() for key in differing_inputs(*pair)}
    verdicts = {k: judge(*pair, tolerance, elsewhere) for k, pair in pairs.items()}
    return merge_verdicts(verdicts, count)


def merge_verdicts(verdicts: Mapping[int, Sequence[SiteVerdict]], count: int) -> list[SiteVerdict]:
    """One verdict per site: the worst of all processes, with the findings of each.

    ``verdicts`` has the processes that were compared; ``count`` is the number of all processes.
    """
    by_site: dict[object, list[tuple[int, SiteVerdict]]] = {}
    for process, sites in verdicts.items():
        same: Counter[object] = Counter()  # sites of one line
        for site in sites:
            sides = (site.before, site.after)
            key = tuple(side and (side.file, side.line, side.function) for side in sides)
            by_site.setdefault((key, same[key]), []).append((process, site))
            same[key] += 1
    merged = [_merge(parts, len(verdicts)) for parts in by_site.values()]
    missing = [str(k) for k in range(count) if k not in verdicts]
    if not missing:
        return merged
    gap = Gap(GapKind.PROCESS_MISSING, f"{', '.join(missing)} of {count}")
    return [with_gap(site, gap) for site in merged]


def _merge(parts: Sequence[tuple[int, SiteVerdict]], processes: int) -> SiteVerdict:
    sites = [site for _, site in parts]
    worst = min(sites, key=lambda site: [*Verdict].index(site.verdict))
    known = [site.itself for site in sites]
    itself = True if True in known else False if False in known else None
    # A function that differs itself in one process does so in all of them.
    agreeing = [site for site in sites if site.itself is itself or site.itself is None]
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
        collective_calls=max(site.collective_calls for site in sites),
        differing_calls=max(site.differing_calls for site in sites),
        findings=findings,
        causes=tuple(dict.fromkeys(cause for site in agreeing for cause in site.causes)),
        notes=notes,
        gaps=tuple(dict.fromkeys(gap for site in sites for gap in site.gaps)),
        itself=itself,
    )
