"""The report as Markdown, for a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator

from shardlift._escape import escape_control
from shardlift.report.findings import timed
from shardlift.report.numbers import TIMES, TimeParts, percent, seconds, share
from shardlift.report.view import SiteView, View, about, overhead


def render(view: View) -> str:
    """Markdown in the dialect of GitHub."""
    return "\n".join(_lines(view)) + "\n"


def _lines(view: View) -> Iterator[str]:
    yield f"**{text(view.headline)}**"
    yield ""
    yield text(" · ".join(about(view.capture)))
    if view.sites:
        yield ""
        yield f"| site | calls | p50 | p95 | {' | '.join(TimeParts._fields)} | compiled |"
        yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
        yield from map(_row, view.sites)
    for site in view.sites:
        if site.findings:
            yield ""
            yield f"**{text(site.site.function)}** ({text(site.place)})"
            yield ""
            yield from _findings(site)
    if view.unseen:
        yield ""
        yield "Not seen:"
        yield ""
        yield from (f"- {text(line)}" for line in view.unseen)
    yield ""
    yield text(overhead(view.capture))


def _row(view: SiteView) -> str:
    times, parts = view.site.times, view.parts
    p50, p95 = (seconds(times.call.quantile(q)) if times.call.count else "" for q in (0.5, 0.95))
    shares = [percent(share(part, parts.total)) if parts.total else "" for part in parts]
    compiled = f"{view.site.compile_count} {TIMES} ({seconds(times.compiling.total)})"
    name = f"{text(view.site.function)} ({text(view.place)})"
    cells = [name, view.calls, p50, p95, *shares, compiled if view.site.compile_count else ""]
    return f"| {' | '.join(cells)} |"


def _findings(view: SiteView) -> Iterator[str]:
    for finding in view.findings:
        mark = "**needs a decision:** " if finding.decision else ""
        cost = f" ({timed(finding)})" if timed(finding) else ""
        what = f"{text(finding.what)}{cost}"
        yield f"- {mark}{what}. {text(finding.fix)} {code(finding.command)}"


def text(words: str) -> str:
    r"""The words on one line, with Markdown and HTML escaped; no one is mentioned by `@name`.

    >>> text("a|b <script> *x*"), text("@all #1")
    ('a\\|b \\<script\\> \\*x\\*', '@&#8203;all \\#&#8203;1')
    """
    escaped = re.sub(r"([\\`*_{}\[\]<>()#+!|~&])", r"\\\1", _one_line(words))
    return re.sub("([@#])", r"\1&#8203;", escaped)


def code(words: str) -> str:
    """A command as inline code, even if it contains backticks.

    >>> code("shardlift rule SL401"), code("a`b")
    ('`shardlift rule SL401`', '`` a`b ``')
    """
    line = _one_line(words).replace("|", "\\|")
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    return f"`{line}`" if not longest else f"{'`' * (longest + 1)} {line} {'`' * (longest + 1)}"


def _one_line(words: str) -> str:
    return escape_control(" ".join(words.split()))
