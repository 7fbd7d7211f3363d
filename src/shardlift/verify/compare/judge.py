"""Compares two captures, of each process of two jobs: one verdict per site."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from shardlift.capture.pairs import Pairs
from shardlift.capture.schema import Capture, SiteFacts, SiteKind
from shardlift.report.numbers import list_names
from shardlift.verify.compare.array_distance import Tolerance
from shardlift.verify.compare.captured_run import CapturedRun, same_values
from shardlift.verify.compare.pairs import pair
from shardlift.verify.compare.site_comparison import CallKey, SiteComparison
from shardlift.verify.compare.site_pair import SitePair
from shardlift.verify.compare.verdicts import Gap, GapKind, SiteVerdict, Verdict, place_of, with_gap


def judge(
    before: CapturedRun,
    after: CapturedRun,
    tolerance: Tolerance | None = None,
    elsewhere: Collection[CallKey] = (),
) -> list[SiteVerdict]:
    """The verdicts of all pairs of sites, then of sites that only one program has.

    ``elsewhere``: calls whose inputs differ in another process of the job.
    """
    tolerance = tolerance or Tolerance()
    left, right = before.capture.sites, after.capture.sites
    pairs = pair(left, right)
    verdicts = [
        SiteComparison(SitePair((before, after), (i, j), tolerance), elsewhere).verdict()
        for i, j in pairs
    ]
    for number in out_of_order(left, right, pairs):
        verdicts[number] = with_gap(verdicts[number], Gap(GapKind.ORDER))
    paired = {i for i, _ in pairs}, {j for _, j in pairs}
    for k, site in enumerate(left):
        if k not in paired[0] and (
            site.kind is SiteKind.PMAP or (site.samples and site.kind is SiteKind.SHARD_MAP)
        ):
            verdicts += _without_partner(site, before.capture, after.capture)
    for k, site in enumerate(right):
        if k not in paired[1] and site.samples and site.kind is not SiteKind.JIT:
            place = place_of(site, after.capture)
            verdicts.append(SiteVerdict(Verdict.NOT_REACHED, None, place))
    return verdicts


def out_of_order(before: Sequence[SiteFacts], after: Sequence[SiteFacts], pairs: Pairs) -> set[int]:
    """The first two pairs of sites that the programs call in another order, if there are any.

    Functions that compute the same may have been exchanged: `f, g = g, f`. Functions of plain jit
    do not count: many of them have no part in what the program computes.
    """
    numbers = [k for k, (i, _) in enumerate(pairs) if before[i].kind is not SiteKind.JIT]
    old = _order([(before[pairs[k][0]], k) for k in numbers])
    new = _order([(after[pairs[k][1]], k) for k in numbers])
    if Counter(old) != Counter(new):  # another number of calls, which is a finding of its own
        return set()
    return next(({a, b} for a, b in zip(old, new, strict=True) if a != b), set())


def _order(sites: Sequence[tuple[SiteFacts, int]]) -> list[int]:
    """The numbers of sites in the order of the calls of the main thread; [] if not recorded."""
    calls = sorted(
        (sample.order, number)
        for site, number in sites
        for sample in site.samples
        if not sample.threaded
    )
    return [number for _, number in calls] if calls and calls[0][0] else []


def differing_inputs(before: CapturedRun, after: CapturedRun) -> Iterator[CallKey]:
    """The calls whose inputs differ."""
    left, right = before.capture.sites, after.capture.sites
    for i, j in pair(left, right):
        for old, new in zip(left[i].samples, right[j].samples, strict=False):
            if not same_values(old.inputs, new.inputs):
                yield left[i].key, right[j].key, old.call


def notes_on_jits(before: Capture, after: Capture) -> list[str]:
    """Notes on jit functions of one program only, which are usually inlined in the other."""
    pairs = pair(before.sites, after.sites)
    paired = {i for i, _ in pairs}, {j for _, j in pairs}
    notes = []
    for name, capture, used in (("before", before, paired[0]), ("after", after, paired[1])):
        alone = [
            f"{site.function} ({capture.place(site.file, site.line)})"
            for k, site in enumerate(capture.sites)
            if k not in used and site.kind is SiteKind.JIT and site.samples
        ]
        if alone:
            notes.append(f"jit functions only {name}, not compared: {list_names(alone, most=4)}")
    return notes


def _without_partner(site: SiteFacts, before: Capture, after: Capture) -> list[SiteVerdict]:
    """The verdict of a site without a partner; none if it was only called inside others."""
    same = (x for x in after.sites if x.function == site.function and not x.samples)
    places = place_of(site, before), next((place_of(x, after) for x in same), None)
    if site.samples or not (site.nested or site.transformed):
        return [SiteVerdict(Verdict.NOT_REACHED, *places)]
    if not site.transformed:
        return []
    gap = Gap(GapKind.TRANSFORMED, count=site.transformed)
    return [SiteVerdict(Verdict.NOT_COMPARED, *places, gaps=(gap,))]


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
