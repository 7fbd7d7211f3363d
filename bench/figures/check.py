"""The time of a check, and of parsing alone, against the number of files."""

from __future__ import annotations

from bench.check_files import BENCH
from bench.figures import style


def draw() -> None:
    """One panel; the newest Python that was measured."""
    records = style.newest("check", "cpu")
    if not records:
        return
    figure, panels = style.panels(1)
    panel = panels[0][0]
    for name, look in zip(BENCH.contenders, (style.LOOKS[1], style.LOOKS[0]), strict=True):
        style.curve(panel, {r["size"]: r["best"][name] for r in records}, name, look)
    panel.set_yscale("log")
    style.finish(panel, sorted({r["size"] for r in records}))
    panel.set_xlabel("files")
    panel.set_ylabel("ms")
    panel.legend(frameon=False, fontsize=9)
    style.save(figure, "check", "Checking a project", records)
