"""One site on the page: its numbers and its findings."""

from shardlift.report.findings import ReportItem, timed
from shardlift.report.html.markup import Markup, join, tag
from shardlift.report.numbers import TIMES, TimeParts, percent, seconds, share
from shardlift.report.view import SiteView


def site_card(view: SiteView) -> Markup:
    """One site."""
    site = view.site
    return tag(
        "article",
        tag("h3", site.function, tag("code", view.place)),
        _figures(view),
        stacked_bar(view.parts, "" if site.times.waiting.count else "waiting"),
        *map(_finding, view.findings),
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
        tag(
            "li",
            _dot(name),
            f"{name} ",
            tag("b", percent(part)),
            f" {seconds(getattr(parts, name))}",
        )
        for name, part in shares.items()
    ]
    if unseen:
        legend.append(tag("li", _dot(unseen), f"{unseen} not seen"))
    return join(bar, tag("ul", *legend, class_="legend"))


def _dot(name: str) -> Markup:
    return tag("span", class_=f"dot {name}")


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
