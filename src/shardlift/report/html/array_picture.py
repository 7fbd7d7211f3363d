"""A picture of how an array is laid out on the devices.

There is one square per device. A piece of the array is drawn at its position in the whole: a strip
for one row, the full square for the whole array. Pieces with equal values have the same colour.
"""

from __future__ import annotations

from shardlift.capture.schema import HOST, IN_PLACE, LeafFacts, SiteFacts
from shardlift.report.html.markup import Markup, tag
from shardlift.report.numbers import amount

MOST_DEVICES = 16
_CELL, _GAP, _TOP = 26, 6, 12


def layout_row(leaf: LeafFacts, site: SiteFacts) -> Markup:
    """One argument: its name, the picture and a description."""
    kind = f"{leaf.dtype}[{','.join(map(str, leaf.shape))}]"
    return tag(
        "div",
        tag("div", tag("code", leaf.path),
            tag("span", f"{kind}, {amount(leaf.nbytes)}", class_="quiet"), class_="name"),
        tag("div", picture(leaf, site), class_="scroll"),
        tag("div", *(tag("span", text, class_=f"tag {kind}") for kind, text in words(leaf, site)),
            class_="tags"),
        class_="leaf",
    )  # fmt: skip


def words(leaf: LeafFacts, site: SiteFacts) -> list[tuple[str, str]]:
    """What the picture shows, and what it cannot show, each with a CSS class."""
    if leaf.axis is None:
        texts = [("", "whole on every device")]
    else:
        rows = "row" if leaf.axis == 0 else f"slice of axis {leaf.axis}"
        texts = [("", f"one {rows} per device")]
    if leaf.axis is not None and leaf.equal:
        copies = max(site.axis_size - 1, 0)
        texts.append(("warn", f"the same everywhere: {copies} of {site.axis_size} are copies"))
    if leaf.axis is None and leaf.equal is False:
        texts.append(("warn", "differs between devices"))
    if leaf.placement == HOST:
        texts.append(("warn", "comes from the host at each call"))
    elif leaf.placement != IN_PLACE:
        texts.append(("warn", f"comes from {leaf.placement}"))
    if leaf.donated:
        texts.append(("warn", "donated, not reused") if leaf.kept else ("", "donated"))
    return texts


def picture(leaf: LeafFacts, site: SiteFacts) -> Markup:
    """One square per device."""
    devices = list(site.devices) or [str(k) for k in range(min(site.axis_size, 64))]
    rows = max(site.axis_size, 1)
    per_row = max(len(devices) // rows, 1)  # devices; more than one for nested pmaps
    shown = devices[:MOST_DEVICES]
    parts = []
    for k, device in enumerate(shown):
        x = k * (_CELL + _GAP)
        row = k // per_row
        parts.append(tag("text", device.rpartition(":")[2], x=x + _CELL / 2, y=9, class_="device"))
        parts.append(tag("rect", x=x, y=_TOP, width=_CELL, height=_CELL, rx=4, class_="cell"))
        parts.append(_piece(leaf, x, row, rows))
    width = len(shown) * (_CELL + _GAP)
    if len(devices) > len(shown):
        more = f"+{len(devices) - len(shown)}"
        parts.append(tag("text", more, x=width + 14, y=_TOP + _CELL / 2 + 4, class_="device"))
        width += 40
    label = f"{leaf.path}: {', '.join(text for _, text in words(leaf, site))}"
    height = _TOP + _CELL + 1
    return tag(
        "svg", tag("title", label), *parts, viewBox=f"-1 0 {width + 2} {height}", width=width + 2,
        height=height, role="img", class_="layout",
    )  # fmt: skip


def _piece(leaf: LeafFacts, x: int, row: int, rows: int) -> Markup:
    """The piece of one device, at its position in the whole array."""
    same = leaf.equal if leaf.axis is not None else leaf.equal is not False
    colour = 0 if same else 1 + row % 8
    if leaf.axis is None:
        return tag("rect", x=x + 2, y=_TOP + 2, width=_CELL - 4, height=_CELL - 4, rx=3,
                   class_=f"piece c{colour}")  # fmt: skip
    room = _CELL - 4
    size = max(room / rows, 4.0)
    offset = (room - size) * row / max(rows - 1, 1)
    across = leaf.axis == 0
    return tag(
        "rect",
        x=x + 2.0 if across else x + 2 + offset,
        y=_TOP + 2 + offset if across else _TOP + 2.0,
        width=room if across else size,
        height=size if across else room,
        rx=1,
        class_=f"piece c{colour}",
    )
