"""One site on the page: its numbers, its findings, and details that can be unfolded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shardlift.capture.schema import LeafFacts, MovedBy, SiteFacts
from shardlift.report.compile_reasons import all_reasons
from shardlift.report.findings import ReportItem, timed
from shardlift.report.html.array_picture import layout_row
from shardlift.report.html.bars import stacked_bar
from shardlift.report.html.markup import Markup, join, tag
from shardlift.report.numbers import TIMES, amount, count, list_names, seconds
from shardlift.report.view import SiteView

MOST_PICTURES = 12
MOST_DETAILED = 100  # sites with pictures and tables: a browser takes long to open thousands


def site_card(view: SiteView, rank: int) -> Markup:
    """One site, which is number ``rank`` by cost."""
    site = view.site
    return tag(
        "article",
        tag("h3", site.function, tag("code", view.place)),
        _figures(view),
        stacked_bar(view.parts, "" if site.times.waiting.count else "waiting"),
        *map(_finding, view.findings),
        _details_of(site, unfolded=rank == 0) if rank < MOST_DETAILED else "",
        id=f"site{view.index}",
    )


def _details_of(site: SiteFacts, unfolded: bool) -> Markup:
    return join(
        _layouts("Layout of arguments", site, site.arguments, unfolded),
        _layouts("Layout of outputs", site, site.outputs, False),
        _table("Programs compiled", ("call", "at", "took", "because"), _compiles(site)),
        _table("Arguments moved", ("argument", "from", "to", "times", "bytes"), _moves(site)),
        _table("Outputs read", ("output", "by", "line", "times", "bytes", "time"), _reads(site)),
        _table("Collectives in the program, on one device", _COLLECTIVES, _collectives(site)),
    )


_COLLECTIVES = ("kind", "axes", "times per call", "bytes per call", "in a gradient", "line")


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
        figures.append(("axes" if len(site.mesh) > 1 else "axis", _axes(site)))
    items = [tag("div", tag("dt", name), tag("dd", value)) for name, value in figures]
    return tag("dl", *items, class_="figures")


def _axes(site: SiteFacts) -> str:
    """The mapped axis and the axes of nested pmaps."""
    own = f"{site.axis_name} = {site.axis_size}" if site.axis_name else str(site.axis_size)
    nested = [f"{name} = {size}" for name, size in list(site.mesh.items())[1:]]
    return f" {TIMES} ".join([own, *nested])


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


def _layouts(title: str, site: SiteFacts, leaves: Sequence[LeafFacts], unfolded: bool) -> Markup:
    if not leaves:
        return Markup("")
    largest = sorted(leaves, key=lambda leaf: -leaf.nbytes)[:MOST_PICTURES]
    rest = len(leaves) - len(largest) + site.leaves_left_out
    rows = [layout_row(leaf, site) for leaf in largest]
    more = tag("p", f"and {count(rest, 'smaller one')}", class_="quiet") if rest else ""
    return _details(title, join(*rows, more), unfolded)


def _details(title: str, body: Markup, unfolded: bool = False) -> Markup:
    inside = join(tag("summary", title), body)
    return tag("details", inside, open="") if unfolded else tag("details", inside)


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    lines = [tag("tr", *(tag("td", cell) for cell in row)) for row in rows]
    if not lines:
        return Markup("")
    top = tag("thead", tag("tr", *(tag("th", text) for text in head)))
    table = tag("div", tag("table", top, tag("tbody", *lines)), class_="scroll")
    return _details(f"{title} ({len(lines)})", table)


def _compiles(site: SiteFacts) -> list[tuple[str, ...]]:
    return [
        (str(program.call + 1), seconds(program.at), seconds(program.seconds), all_reasons(program))
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
            f"{read.path}, or {read.others} of the same type" if read.others else read.path,
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
        (
            collective.kind,
            ", ".join(collective.axes),
            str(collective.count)
            if collective.exact
            else f"{collective.count}; loops and branches may change it",
            amount(collective.nbytes),
            "yes" if collective.gradient else "",
            list_names(collective.lines, 5),
        )
        for collective in site.collectives
    ]
