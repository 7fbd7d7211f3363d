"""Dispatch in many processes over the limit, against the number of leaves."""

from __future__ import annotations

from bench.figures import style
from bench.harness import JAX, LIMIT
from bench.processes import GLOBAL, LOCAL

LOOKS = {
    LOCAL: style.LOOKS[0], JAX: style.LOOKS[1], GLOBAL: style.LOOKS[2], LIMIT: style.LIMIT_LOOK,
}  # fmt: skip


def draw() -> None:
    """A panel for each kind of job."""
    records = style.newest("processes", "cpu")
    jobs = sorted({(int(r["case"].split()[0]), r["devices"]) for r in records})
    if not jobs:
        return
    figure, panels = style.panels(len(jobs))
    for panel, (processes, devices) in zip(panels[0], jobs, strict=True):
        here = [
            r for r in records if r["case"] == f"{processes} processes" and r["devices"] == devices
        ]
        for name, look in LOOKS.items():
            points = {r["size"]: r["ratio"][name] for r in here if name in r["ratio"]}
            style.curve(panel, points, name, look)
        style.finish(panel, sorted({r["size"] for r in here}))
        panel.set_title(f"{processes} processes x {devices}", fontsize=10)
        panel.set_xlabel("leaves")
    panels[0][0].set_ylabel("time of a call / limit")
    panels[0][-1].legend(frameon=False, fontsize=8)
    style.save(figure, "dispatch_processes", "Dispatch in many processes", records)
