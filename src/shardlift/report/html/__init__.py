"""The report as one HTML page: no script, no network, every string escaped."""

import base64
import hashlib
from importlib import resources

from shardlift.report.findings import ReportItem, timed
from shardlift.report.html.markup import Markup, join, tag
from shardlift.report.numbers import TIMES, TimeParts, percent, seconds, share, total_parts
from shardlift.report.view import SiteView, View, about, decisions_text

_MEASURED = (
    "Times are measured on the thread that makes the calls. Dispatch is the call itself, without "
    "moving. Waiting is the time from the return of the call until its outputs are ready, measured "
    "on the calls whose leaves are compared. Calls that compiled a program are counted separately."
)


def page(view: View) -> str:
    """The report of a capture."""
    main = join(
        _hero(view),
        _decisions(view),
        tag("h2", "Sites, by cost") if view.sites else "",
        *map(site_card, view.sites),
        _list("Not seen", [tag("li", text) for text in view.unseen], "plain"),
        tag("footer", tag("p", _MEASURED)),
    )
    return document(f"shardlift: {view.headline}", main)


def document(title: str, main: Markup, script: str = "", more_style: str = "") -> str:
    """A whole page in the style of the report. It loads nothing, and runs no other script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    style = resources.files(__name__).joinpath("page.css").read_text(encoding="utf-8")
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(style + more_style)),
    )
    scripts = tag("script", Markup(script)) if script else ""
    html = tag("html", tag("head", head), tag("body", tag("main", main), scripts), lang="en")
    return f"<!doctype html>\n{html}\n"


def _hero(view: View) -> Markup:
    undecided = "decide" if view.decisions else "fine"
    chips = [tag("span", decisions_text(view.decisions), class_=f"chip {undecided}")]
    chips += [tag("span", text, class_="chip quiet") for text in about(view.capture)]
    return tag(
        "header",
        tag("p", "shardlift report", class_="brand"),
        tag("h1", view.headline, class_="sentence"),
        tag("p", *chips, class_="chips"),
        stacked_bar(total_parts(view.capture)),
    )


def _decisions(view: View) -> Markup:
    """The decisions, with links to their sites."""
    items = [
        tag("li", tag("a", site.site.function, href=f"#site{site.index}"), f": {finding.what}")
        for site in view.sites
        for finding in site.findings
        if finding.decision
    ]
    return _list("To decide", items, "plain decide")


def _list(title: str, items: list[Markup], kind: str) -> Markup:
    """A section with a list; nothing if it is empty."""
    return tag("section", tag("h2", title), tag("ul", *items, class_=kind)) if items else Markup("")


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
