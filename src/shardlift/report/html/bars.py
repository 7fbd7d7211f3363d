"""A stacked bar: how a duration is divided."""

from __future__ import annotations

from collections.abc import Iterator

from shardlift.report.html.markup import Markup, join, tag
from shardlift.report.numbers import TimeParts, percent, seconds, share


def stacked_bar(parts: TimeParts, unseen: str = "") -> Markup:
    """The parts of a time, to scale, with a legend; ``unseen`` is a part that was not timed."""
    if parts.total <= 0:
        return Markup("")
    words = ", ".join(
        f"{name} {percent(share(value, parts.total))}"
        for name, value in parts._asdict().items()
        if value > 0
    )
    pieces = [
        tag(
            "span",
            class_=f"part {name}",
            style=f"flex-grow:{share(value, parts.total):.5f}",
            title=f"{name}: {seconds(value)}",
        )
        for name, value in parts._asdict().items()
        if value > 0
    ]
    bar = tag("div", *pieces, class_="bar", role="img", aria_label=words)
    return join(bar, tag("ul", *_legend(parts, unseen), class_="legend"))


def _legend(parts: TimeParts, unseen: str) -> Iterator[Markup]:
    for name, value in parts._asdict().items():
        if name == unseen:
            numbers = [tag("span", "not seen", class_="quiet")]
        elif value > 0:
            numbers = [
                tag("b", percent(share(value, parts.total))),
                tag("span", f" {seconds(value)}", class_="quiet"),
            ]
        else:
            continue
        yield tag("li", tag("span", class_=f"dot {name}"), f"{name} ", *numbers)
