"""Compare two captures, site by site."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from shardlift.capture.schema import Capture, SiteFacts
from shardlift.capture.site_pairs import pair_sites
from shardlift.report.numbers import TIMES, amount, moved_bytes, parts_of, percent, seconds, share


class Pair(NamedTuple):
    """A site in both runs; None if a run does not have it."""

    before: SiteFacts | None
    after: SiteFacts | None

    @property
    def name(self) -> str:
        """The function and its place, and the run if it is in one only."""
        site = self.after or self.before
        assert site is not None
        alone = ", only after" if self.before is None else ", only before"
        both = self.before is not None and self.after is not None
        return f"{site.function} ({site.file}:{site.line}){'' if both else alone}"


class Measure(NamedTuple):
    """A quantity that is compared."""

    name: str
    value: Callable[[SiteFacts], float]
    shown: Callable[[float], str]


MEASURES = (
    Measure("p50", lambda site: site.times.call.quantile(0.5), seconds),
    Measure("p95", lambda site: site.times.call.quantile(0.95), seconds),
    Measure("until ready", lambda site: time_per_call(site), seconds),
    Measure("moving", lambda site: _moving_share(site), percent),
    Measure("bytes moved per call", moved_bytes, amount),
    Measure("compiled", lambda site: site.compile_count, lambda value: f"{value:.0f}"),
    Measure("calls", lambda site: site.calls, lambda value: f"{value:.0f}"),
)


def time_per_call(site: SiteFacts) -> float:
    """The time until the outputs of a call are ready; 0 if no call was timed."""
    return parts_of(site).total / site.times.call.count if site.times.call.count else 0.0


def _moving_share(site: SiteFacts) -> float:
    parts = parts_of(site)
    return share(parts.moving_data, parts.total)


def pairs_of(before: Capture, after: Capture) -> list[Pair]:
    """The sites of both runs, with equal sites in pairs."""
    left, right = before.sites, after.sites
    both = pair_sites(left, right)
    taken = {i for i, _ in both}, {j for _, j in both}
    return [
        *(Pair(left[i], right[j]) for i, j in both),
        *(Pair(site, None) for k, site in enumerate(left) if k not in taken[0]),
        *(Pair(None, site) for k, site in enumerate(right) if k not in taken[1]),
    ]


def rows(pair: Pair) -> list[tuple[str, str, str, str]]:
    """Measure, before, after and ratio; a cell without a value is empty."""
    cells = []
    for name, value, shown in MEASURES:
        old = None if pair.before is None else value(pair.before)
        new = None if pair.after is None else value(pair.after)
        if not old and not new:
            continue
        ratio = f"{new / old:.2f} {TIMES}" if old and new is not None else ""
        cells.append(
            (name, "" if old is None else shown(old), "" if new is None else shown(new), ratio)
        )
    return cells


def as_text(before: Capture, after: Capture) -> str:
    """One small table per site."""
    parts = []
    for pair in pairs_of(before, after):
        lines = [pair.name]
        lines += [
            f"  {name:<20}{old:>12}{new:>12}{ratio:>10}".rstrip()
            for name, old, new, ratio in [("", "before", "after", ""), *rows(pair)]
        ]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) if parts else "neither run has a pmap site"


def as_markdown(before: Capture, after: Capture) -> str:
    """One Markdown table."""
    from shardlift.report.markdown import text

    lines = ["| site | | before | after | |", "| --- | --- | ---: | ---: | ---: |"]
    for pair in pairs_of(before, after):
        name = text(pair.name)
        for k, (measure, old, new, ratio) in enumerate(rows(pair)):
            lines.append(f"| {name if not k else ''} | {measure} | {old} | {new} | {ratio} |")
    return "\n".join(lines) + "\n"


def as_tree(before: Capture, after: Capture) -> list[dict[str, object]]:
    """The numbers themselves, for JSON."""
    return [
        {
            "site": pair.name,
            **{
                side: None if site is None else {m.name: m.value(site) for m in MEASURES}
                for side, site in (("before", pair.before), ("after", pair.after))
            },
        }
        for pair in pairs_of(before, after)
    ]
