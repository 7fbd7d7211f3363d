"""One site on the page: its numbers, its findings, and details that can be unfolded."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from shardlift.capture.schema import CompileReason, SiteFacts
from shardlift.report.findings import ReportItem, reason_text, timed
from shardlift.report.html.markup import Markup, join, tag
from shardlift.report.numbers import TIMES, TimeParts, amount, percent, seconds, share
from shardlift.report.view import SiteView

MOST_FACTS = 64  # of a table
MOST_DETAILED = 100  # sites with tables: a browser takes long to open thousands


def site_card(view: SiteView, rank: int) -> Markup:
    """One site, which is number ``rank`` by cost."""
    site = view.site
    return tag(
        "article",
        tag("h3", site.function, tag("code", view.place)),
        _figures(view),
        stacked_bar(view.parts, "" if site.times.waiting.count else "waiting"),
        *map(_finding, view.findings),
        _details_of(site) if rank < MOST_DETAILED else "",
        id=f"site{view.index}",
    )


def stacked_bar(parts: TimeParts, unseen: str = "") -> Markup:
    """The parts of a time, to scale, with a legend; ``unseen`` is a part that was not timed."""
    if parts.total <= 0:
        return Markup("")
    shares = {name: share(value, parts.total) for name, value in parts._asdict().items() if value}
    pieces = [
        tag("span", class_=f"part {name}", style=f"flex-grow:{part:.5f}")
        for name, part in shares.items()
    ]
    words = ", ".join(f"{name} {percent(part)}" for name, part in shares.items())
    bar = tag("div", *pieces, class_="bar", role="img", aria_label=words)
    legend = [
        (name, tag("b", percent(part)), f" {seconds(getattr(parts, name))}")
        for name, part in shares.items()
    ]
    if unseen:
        legend.append((unseen, Markup(""), "not seen"))
    items = [
        tag("li", tag("span", class_=f"dot {name}"), f"{name} ", *numbers)
        for name, *numbers in legend
    ]
    return join(bar, tag("ul", *items, class_="legend"))


def _details_of(site: SiteFacts) -> Markup:
    return join(
        _table("Arguments", site.arguments),
        _table("Outputs", site.outputs),
        _table("Programs compiled", site.compiles),
        _table("Arguments moved", site.moves),
        _table("Outputs read", site.reads),
        _table("Collectives", site.collectives),
    )


def _figures(view: SiteView) -> Markup:
    site, times = view.site, view.site.times
    figures = [("calls", view.calls)]
    if times.call.count:
        figures += [("p50", seconds(times.call.quantile(0.5)))]
        figures += [("p95", seconds(times.call.quantile(0.95)))]
        figures += [("longest", seconds(times.call.max))]
    if times.waiting.count:
        figures.append(("until ready", f"+{seconds(times.waiting.quantile(0.5))}"))
    if site.compile_count:
        figures.append((f"compiling {TIMES}{site.compile_count}", seconds(times.compiling.total)))
    if site.axis_size:
        named = f"{site.axis_name} = " if site.axis_name else ""
        figures.append(("axis", f"{named}{site.axis_size}"))
    items = [tag("div", tag("dt", name), tag("dd", value)) for name, value in figures]
    return tag("dl", *items, class_="figures")


def _finding(finding: ReportItem) -> Markup:
    cost = timed(finding)
    return tag(
        "div",
        tag(
            "p",
            tag("b", "decide " if finding.decision else ""),
            finding.what,
            tag("span", cost, class_="cost") if cost else "",
        ),
        tag("p", finding.fix, class_="fix"),
        tag("pre", tag("code", finding.command)) if finding.command else "",
        class_="finding decide" if finding.decision else "finding",
    )


def _table(title: str, facts: Sequence[Any]) -> Markup:
    """The facts as the capture has them, one per line, the largest first."""
    if not facts:
        return Markup("")
    largest = sorted(facts, key=lambda fact: -getattr(fact, "nbytes", 0))[:MOST_FACTS]
    names = [field.name for field in dataclasses.fields(facts[0]) if field.name != "digest"]
    head = tag("thead", tag("tr", *(tag("th", name) for name in names)))
    rows = [
        tag("tr", *(tag("td", _cell(name, getattr(fact, name))) for name in names))
        for fact in largest
    ]
    table = tag("div", tag("table", head, tag("tbody", *rows)), class_="scroll")
    return tag("details", tag("summary", f"{title} ({len(facts)})"), table)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return "; ".join(reason_text(v) if isinstance(v, CompileReason) else str(v) for v in value)
    units = {"nbytes": amount, "seconds": seconds}
    return units[name](value) if name in units else str(value)
