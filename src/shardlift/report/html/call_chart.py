"""When calls ran: one lane per site, time from left to right."""

from __future__ import annotations

from shardlift.report.html.markup import Markup, tag
from shardlift.report.numbers import seconds
from shardlift.report.view import View

_WIDTH, _LANE, _GAP = 1000.0, 26, 8
MOST_LANES = 12


def timeline(view: View) -> Markup:
    """The section; empty if there were no calls."""
    events = view.capture.timeline
    if not events:
        return Markup("")
    lanes = {site.index: k for k, site in enumerate(view.sites[:MOST_LANES])}
    span = max(max(event.start + event.seconds for event in events), 1e-9)
    processes = sorted({event.process for event in events})
    order = {process: k for k, process in enumerate(processes)}
    height = len(lanes) * (_LANE + _GAP)
    thick = _LANE / len(processes)
    marks = []
    for event in events:
        if event.site not in lanes:
            continue
        place = view.capture.sites[event.site]
        what = "compiled, " if event.compiled else ""
        label = f"{place.function}: {what}{seconds(event.seconds)} at {seconds(event.start)}"
        y = lanes[event.site] * (_LANE + _GAP) + order[event.process] * thick
        marks.append(
            tag(
                "rect",
                tag("title", label),
                x=event.start / span * _WIDTH,
                y=float(y),
                width=max(event.seconds / span * _WIDTH, 0.02),
                height=thick,
                class_="compiled" if event.compiled else "called",
            )
        )
    chart = tag(
        "svg", *marks, viewBox=f"0 0 {_WIDTH:.0f} {height}", preserveAspectRatio="none",
        height=height, class_="lanes", data_span=f"{span:.6f}", role="img",
        aria_label=f"{len(events)} calls over {seconds(span)}",
    )  # fmt: skip
    names = [
        tag("li", site.site.function, title=site.site.function) for site in view.sites[:MOST_LANES]
    ]
    ticks = [
        tag("span", seconds(span * k / 4) if k else "0", style=f"left:{25 * k}%") for k in range(5)
    ]
    tools = tag(
        "p",
        tag("span", tag("span", class_="dot called"), " a call ",
            tag("span", class_="dot compiled"), " a call that compiled", class_="quiet"),
        tag("span", class_="zoom"),
        class_="tools",
    )  # fmt: skip
    plot = tag("div", chart, tag("div", *ticks, class_="ticks"), class_="plot")
    return tag(
        "section",
        tag("h2", "Calls over time"),
        tools,
        tag("div", tag("ul", *names, class_="lanenames"), plot, class_="timeline"),
    )
