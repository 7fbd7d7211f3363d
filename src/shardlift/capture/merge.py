"""Merging the captures of the processes of one job."""

import dataclasses
import operator
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from shardlift.capture.counts import add_alike, added
from shardlift.capture.schema import Capture, LeafFacts, Proof, SiteFacts, Times


def merge(captures: Iterable[Capture]) -> Capture:
    """Merge the captures of a job: counts, times and bytes are added, everything else is kept once.

    A leaf is equal on all devices if it was in every process, with the same value. The arrays of
    calls stay in the captures of the processes.
    """
    index = operator.attrgetter("index")  # of a process
    parts = sorted(captures, key=lambda part: min(map(index, part.processes), default=0))
    if not parts:
        raise ValueError("merge needs at least one capture")
    if len(parts) == 1:
        return parts[0]
    sites: dict[Any, list[SiteFacts]] = {}
    for capture in parts:
        for site in capture.sites:
            sites.setdefault(site.key, []).append(site)
    sources: dict[str, str] = {}
    for capture in parts:
        for path, digest in capture.sources.items():  # empty if two processes had different texts
            sources[path] = digest if sources.get(path, digest) == digest else ""
    return dataclasses.replace(
        parts[0],
        started=min(part.started for part in parts),
        seconds=max(part.seconds for part in parts),
        processes=tuple(sorted((p for part in parts for p in part.processes), key=index)),
        sites=tuple(_merge_sites(group) for group in sites.values()),
        used=dict(sum((Counter(part.used) for part in parts), Counter[str]())),
        unseen=_once(text for part in parts for text in part.unseen),
        sources=sources,
    )


def _merge_sites(sites: Sequence[SiteFacts]) -> SiteFacts:
    times = {
        f.name: added(getattr(site.times, f.name) for site in sites)
        for f in dataclasses.fields(Times)
    }
    return dataclasses.replace(
        max(sites, key=lambda site: site.looked),
        processes=tuple(sorted({p for site in sites for p in site.processes})),
        **{
            name: sum(getattr(site, name) for site in sites)
            for name in ("calls", "nested", "transformed", "looked")
        },
        times=Times(**times),
        arguments=_merge_leaves(leaf for site in sites for leaf in site.arguments),
        outputs=_merge_leaves(leaf for site in sites for leaf in site.outputs),
        moves=add_alike((x for site in sites for x in site.moves), "count", "nbytes"),
        reads=add_alike((x for site in sites for x in site.reads), "count", "nbytes", "seconds"),
        unseen=_once(text for site in sites for text in site.unseen),
        proofs=_common_proofs([site.proofs for site in sites if site.calls]),
        forms=(),
        samples=(),
    )


def _common_proofs(sides: Sequence[tuple[Proof, ...]]) -> tuple[Proof, ...]:
    """The proofs if they are the same in every process, else none."""
    conditions = [[(proof.path, proof.needs, proof.arrays) for proof in side] for side in sides]
    return sides[0] if sides and conditions.count(conditions[0]) == len(sides) else ()


def _merge_leaves(leaves: Iterable[LeafFacts]) -> tuple[LeafFacts, ...]:
    groups: dict[str, list[LeafFacts]] = {}
    for leaf in leaves:
        groups.setdefault(leaf.path, []).append(leaf)
    return tuple(map(_merge_leaf, groups.values()))


def _merge_leaf(leaves: Sequence[LeafFacts]) -> LeafFacts:
    verdicts = [leaf.equal for leaf in leaves]
    digests = {leaf.digest for leaf in leaves}
    equal = None if None in verdicts else all(verdicts) and len(digests) == 1
    return dataclasses.replace(
        leaves[0],
        nbytes=sum(leaf.nbytes for leaf in leaves),
        kept=sum(leaf.kept for leaf in leaves),
        compared=min(leaf.compared for leaf in leaves),
        equal=equal if False not in verdicts else False,
        digest=leaves[0].digest if len(digests) == 1 else None,
    )


def _once(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
