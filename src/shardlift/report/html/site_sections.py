"""One site on the page: its numbers, its findings, and details that can be unfolded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from shardlift.capture.schema import LeafFacts, MovedBy, SiteFacts
from shardlift.report.findings import ReportItem, reason_text, timed
from shardlift.report.html.markup import Markup, join, tag
from shardlift.report.numbers import TIMES, TimeParts, amount, list_names, percent, seconds, share
from shardlift.report.view import SiteView

MOST_LEAVES = 32
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
        _table("Arguments", _LEAF, _leaves(site.arguments, site)),
        _table("Outputs", _LEAF, _leaves(site.outputs, site)),
        _table("Programs compiled", ("call", "took", "because"), _compiles(site)),
        _table("Arguments moved", ("argument", "from", "to", "times", "bytes"), _moves(site)),
        _table("Outputs read", ("output", "by", "line", "times", "bytes", "time"), _reads(site)),
        _table("Collectives", ("kind", "in a gradient", "line"), _collectives(site)),
    )


_LEAF = ("path", "type", "bytes", "on the devices")


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
        tag("pre", tag("code", finding.command)),
        class_="finding decide" if finding.decision else "finding",
    )


def _leaves(leaves: Sequence[LeafFacts], site: SiteFacts) -> list[tuple[str, ...]]:
    largest = sorted(leaves, key=lambda leaf: -leaf.nbytes)
    return [
        (
            leaf.path,
            f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]",
            amount(leaf.nbytes),
            "; ".join(_layout(leaf, site)),
        )
        for leaf in largest[:MOST_LEAVES]
    ]


def _layout(leaf: LeafFacts, site: SiteFacts) -> Iterator[str]:
    """How a leaf is laid out on the devices, and what is odd about it."""
    if leaf.axis is None:
        yield "whole on every device"
        if leaf.equal is False:
            yield "differs between devices"
    else:
        yield f"one {f'slice of axis {leaf.axis}' if leaf.axis else 'row'} per device"
        if leaf.equal:
            copies = max(site.axis_size - 1, 0)
            yield f"the same everywhere: {copies} of {site.axis_size} are copies"
    if leaf.donated:
        yield "donated, not reused" if leaf.kept else "donated"


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    lines = [tag("tr", *(tag("td", cell) for cell in row)) for row in rows]
    if not lines:
        return Markup("")
    top = tag("thead", tag("tr", *(tag("th", text) for text in head)))
    table = tag("div", tag("table", top, tag("tbody", *lines)), class_="scroll")
    return tag("details", tag("summary", f"{title} ({len(lines)})"), table)


def _compiles(site: SiteFacts) -> list[tuple[str, ...]]:
    return [
        (
            str(program.call + 1),
            seconds(program.seconds),
            "; ".join(map(reason_text, program.reasons)),
        )
        for program in site.compiles
    ]


def _moves(site: SiteFacts) -> list[tuple[str, ...]]:
    return [
        (
            move.path,
            str(move.source),
            str(move.target),
            str(move.count)
            if move.by is MovedBy.PMAP
            else f"{move.count} of {site.looked} inspected calls",
            f"{amount(move.nbytes / max(move.count, 1))} each",
        )
        for move in sorted(site.moves, key=lambda move: -move.nbytes)
    ]


def _reads(site: SiteFacts) -> list[tuple[str, ...]]:
    return [
        (
            read.path,
            read.how,
            f"{read.file}:{read.line}",
            str(read.count),
            amount(read.nbytes),
            seconds(read.seconds) if read.seconds else "",
        )
        for read in sorted(site.reads, key=lambda read: -read.nbytes)
    ]


def _collectives(site: SiteFacts) -> list[tuple[str, ...]]:
    return [
        (collective.kind, "yes" if collective.gradient else "", list_names(collective.lines, 5))
        for collective in site.collectives
    ]
