"""The report as one HTML page: no script, no network, every string escaped."""

import base64
import hashlib
from importlib import resources

from shardlift.report.html.markup import Markup, join, tag
from shardlift.report.html.site_sections import site_card, stacked_bar
from shardlift.report.numbers import total_parts
from shardlift.report.view import View, about, decisions_text

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
        _unseen(view),
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


def _unseen(view: View) -> Markup:
    return _list("Not seen", [tag("li", text) for text in view.unseen], "plain")


def _list(title: str, items: list[Markup], kind: str) -> Markup:
    """A section with a list; nothing if it is empty."""
    return tag("section", tag("h2", title), tag("ul", *items, class_=kind)) if items else Markup("")
