"""x[0] in microseconds, against the number of devices."""

from __future__ import annotations

from bench.figures import style
from bench.reading import BENCH


def draw() -> None:
    """One panel, a curve for each way of reading."""
    records = style.newest("reading", "cpu")
    if not records:
        return
    figure, panels = style.panels(1)
    panel = panels[0][0]
    for name, look in zip(BENCH.contenders, (style.LOOKS[1], *style.LOOKS[::2]), strict=False):
        style.curve(panel, {r["devices"]: r["best"][name] for r in records}, name, look)
    panel.set_yscale("log")
    style.finish(panel, sorted({r["devices"] for r in records}))
    panel.set_xlabel("devices")
    panel.set_ylabel("µs")
    panel.legend(frameon=False, fontsize=8)
    style.save(figure, "reading", "Reading one row", records)
