"""Merging the captures of the processes of one job."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from shardlift.capture.histogram import added
from shardlift.capture.schema import (
    Capture,
    LeafFacts,
    Process,
    Proof,
    SiteFacts,
    Times,
)

T = TypeVar("T")


def merge(captures: Iterable[Capture]) -> Capture:
    """Merge the captures of a job: counts, times and bytes are added, everything else is kept once.

    A leaf is equal on all devices if it was in every process, with the same value. The arrays of
    calls stay in the captures of the processes.
    """
    parts = sorted(captures, key=lambda part: min(map(_index, part.processes), default=0))
    if not parts:
        raise ValueError("merge needs at least one capture")
    if len(parts) == 1:
        return parts[0]
    sites: dict[Any, list[SiteFacts]] = {}
    for capture in parts:
        for site in capture.sites:
            sites.setdefault(site.key, []).append(site)
    return dataclasses.replace(
        parts[0],
        started=min(part.started for part in parts),
        seconds=max(part.seconds for part in parts),
        processes=tuple(sorted((p for part in parts for p in part.processes), key=_index)),
        sites=tuple(_site(group) for group in sites.values()),
        used=_sum(part.used for part in parts),
        unseen=_all(part.unseen for part in parts),
        sources=_same([part.sources for part in parts]),
    )


def _index(process: Process) -> int:
    return process.index


def _same(sides: Sequence[dict[str, str]]) -> dict[str, str]:
    """The digest of each source text; empty where two processes had different texts."""
    merged: dict[str, str] = {}
    for side in sides:
        for path, digest in side.items():
            merged[path] = digest if merged.get(path, digest) == digest else ""
    return merged


def _site(sites: Sequence[SiteFacts]) -> SiteFacts:
    looked = max(sites, key=lambda site: site.looked)
    return dataclasses.replace(
        looked,
        processes=tuple(sorted({p for site in sites for p in site.processes})),
        **{name: sum(getattr(site, name) for site in sites) for name in _ADDED},
        transformed=_sum(site.transformed for site in sites),
        times=_times([site.times for site in sites]),
        arguments=_leaves([site.arguments for site in sites]),
        outputs=_leaves([site.outputs for site in sites]),
        moves=_merge_groups((move for site in sites for move in site.moves), _MOVE_KEY),
        reads=_merge_groups((read for site in sites for read in site.reads), _READ_KEY),
        unseen=_all(site.unseen for site in sites),
        proofs=_proofs([site.proofs for site in sites if site.calls]),
        forms=(),
        samples=(),
    )


def _proofs(sides: Sequence[tuple[Proof, ...]]) -> tuple[Proof, ...]:
    """The proofs if they are the same in every process, else none."""
    return sides[0] if sides and all(_conditions(s) == _conditions(sides[0]) for s in sides) else ()


def _conditions(proofs: Sequence[Proof]) -> list[object]:
    return [(proof.path, proof.needs, proof.arrays) for proof in proofs]


_MOVE_KEY = ("path", "source", "target", "by")
_READ_KEY = ("path", "how", "file", "line")
_ADDED = ("calls", "failed", "nested", "looked")


def _times(times: Sequence[Times]) -> Times:
    names = [f.name for f in dataclasses.fields(Times)]
    return Times(**{name: added(getattr(part, name) for part in times) for name in names})


def _leaves(sides: Sequence[Sequence[LeafFacts]]) -> tuple[LeafFacts, ...]:
    groups: dict[str, list[LeafFacts]] = {}
    for side in sides:
        for leaf in side:
            groups.setdefault(leaf.path, []).append(leaf)
    return tuple(map(_leaf, groups.values()))


def _leaf(leaves: Sequence[LeafFacts]) -> LeafFacts:
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


def _merge_groups(parts: Iterable[T], by: tuple[str, ...]) -> tuple[T, ...]:
    """Merge the parts that agree in the fields ``by``; their other fields are added."""
    merged: dict[Any, Any] = {}
    for part in parts:
        key = tuple(getattr(part, name) for name in by)
        if key in merged:
            sums = {
                f.name: getattr(merged[key], f.name) + getattr(part, f.name)
                for f in dataclasses.fields(part)  # type: ignore[arg-type]
                if f.name not in by
            }
            part = dataclasses.replace(part, **sums)  # type: ignore[type-var]
        merged[key] = part
    return tuple(merged.values())


def _sum(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total)


def _all(groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for group in groups for text in group))
