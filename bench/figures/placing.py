"""Placing over what the migration guide's drop-ins take, against the size."""

from __future__ import annotations

from bench.figures import style
from bench.placing_page import GUIDE, ONE_COPY, OURS

LOOKS = {OURS: style.LOOKS[0], ONE_COPY: style.LOOKS[2], GUIDE: style.LIMIT_LOOK}


def draw() -> None:
    """A panel for each case."""
    records = style.newest("placing", "cpu")
    cases = list(dict.fromkeys(r["case"] for r in records))
    if not cases:
        return
    figure, panels = style.panels(len(cases))
    for panel, case in zip(panels[0], cases, strict=True):
        here = [r for r in records if r["case"] == case]
        for name, look in LOOKS.items():
            style.curve(panel, {r["size"]: r["ratio"][name] for r in here}, name, look)
        style.finish(panel, sorted({r["size"] for r in here}))
        panel.set_ylim(bottom=0)
        panel.set_title(case, fontsize=10)
        panel.set_xlabel("MB a device")
    panels[0][0].set_ylabel("time / guide's")
    panels[0][-1].legend(frameon=False, fontsize=9)
    style.save(figure, "placing", "Placing on 8 devices", records)
