"""Compare two captures, site by site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from shardlift.capture.schema import Capture, Site
from shardlift.report.numbers import TIMES, amount, moved_bytes, parts_of, percent, seconds, share


class Pair(NamedTuple):
    """A site in both runs; None if a run does not have it."""

    before: Site | None
    after: Site | None

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
    value: Callable[[Site], float]
    shown: Callable[[float], str]


MEASURES = (
    Measure("p50", lambda site: site.times.call.quantile(0.5), seconds),
    Measure("p95", lambda site: site.times.call.quantile(0.95), seconds),
    Measure("until ready", lambda site: _time_per_call(site), seconds),
    Measure("moving", lambda site: _moving(site), percent),
    Measure("bytes moved per call", moved_bytes, amount),
    Measure("compiled", lambda site: site.compile_count, lambda value: f"{value:.0f}"),
    Measure("calls", lambda site: site.calls, lambda value: f"{value:.0f}"),
)


def _time_per_call(site: Site) -> float:
    return parts_of(site).total / site.times.call.count if site.times.call.count else 0.0


def _moving(site: Site) -> float:
    parts = parts_of(site)
    return share(parts.moving_data, parts.total)


def pair_sites(before: Capture, after: Capture) -> list[Pair]:
    """Pair sites by place and name, then by file and name, then by a unique name."""
    left, right = list(before.sites), list(after.sites)
    pairs: list[Pair] = []
    for key in (
        lambda site: site.key,
        lambda site: (site.file, site.function),
        lambda site: site.function,
    ):
        olds, news = _unique(left, key), _unique(right, key)
        matching = [Pair(old, news[name]) for name, old in olds.items() if name in news]
        pairs += matching
        paired = {id(site) for pair in matching for site in pair}
        left = [site for site in left if id(site) not in paired]
        right = [site for site in right if id(site) not in paired]
    return [*pairs, *(Pair(old, None) for old in left), *(Pair(None, new) for new in right)]


def _unique(sites: Sequence[Site], key: Callable[[Site], Any]) -> dict[Any, Site]:
    """The sites whose key no other site has, by key."""
    counts = Counter(map(key, sites))
    return {key(site): site for site in sites if counts[key(site)] == 1}


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
    for pair in pair_sites(before, after):
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
    for pair in pair_sites(before, after):
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
        for pair in pair_sites(before, after)
    ]
