"""The report as one HTML page: no network, no library, every string escaped.

The page is complete without JavaScript; `page.js` adds copying.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from importlib import resources

from shardlift.report.html.markup import Markup, join, tag
from shardlift.report.html.site_sections import MOST_DETAILED, site_card, stacked_bar
from shardlift.report.numbers import total_parts
from shardlift.report.view import View, about, decisions_text


def page(view: View) -> str:
    """The report of a capture."""
    main = join(
        _hero(view),
        _decisions(view),
        tag("h2", "Sites, by cost") if view.sites else "",
        *(site_card(site, rank) for rank, site in enumerate(view.sites)),
        _unseen(view),
        tag("footer", *(tag("p", text) for text in _sentences(view))),
    )
    return document(f"shardlift: {view.headline}", main, asset("page.js"))


def document(title: str, main: Markup, script: str, more_style: str = "") -> str:
    """A whole page in the style of the report. It loads nothing, and runs no other script."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=f"{policy}; img-src data:"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(asset("page.css") + more_style)),
    )
    body = join(tag("main", main), tag("script", Markup(script)))
    html = tag("html", join(tag("head", head), tag("body", body)), lang="en")
    return f"<!doctype html>\n{html}\n"


def asset(name: str) -> str:
    """A style or script of this package."""
    return resources.files(__name__).joinpath(name).read_text(encoding="utf-8")


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
    if not items:
        return Markup("")
    return tag("section", tag("h2", "To decide"), tag("ul", *items, class_="plain decide"))


def _unseen(view: View) -> Markup:
    if not view.unseen:
        return Markup("")
    items = [tag("li", text) for text in view.unseen]
    return tag("section", tag("h2", "Not seen"), tag("ul", *items, class_="plain"))


def _sentences(view: View) -> Iterator[str]:
    yield (
        "Times are measured on the thread that makes the calls. Dispatch is the call itself, "
        "without moving. Waiting is the time from the return of the call until its "
        "outputs are ready, measured on the calls whose leaves are compared. Calls that compiled "
        "a program are counted separately."
    )
    if len(view.sites) > MOST_DETAILED:
        yield f"The {MOST_DETAILED} sites that cost most have details."
