"""Dispatch over the limit, against the number of devices."""

from __future__ import annotations

from bench.figures import style
from bench.figures.dispatch import LOOKS


def draw() -> None:
    """A panel for each number of leaves."""
    records = [r for r in style.newest("dispatch", "cpu") if r["case"] == "fed back"]
    devices = sorted({r["devices"] for r in records})
    if len(devices) < 2:
        return
    sizes = sorted({r["size"] for r in records})
    figure, panels = style.panels(len(sizes))
    for panel, size in zip(panels[0], sizes, strict=True):
        for name, look in LOOKS.items():
            points = {r["devices"]: r["ratio"][name] for r in records if r["size"] == size}
            style.curve(panel, points, name, look)
        style.finish(panel, devices)
        panel.set_title(f"{size} lea{'f' if size == 1 else 'ves'}", fontsize=10)
        panel.set_xlabel("devices")
    panels[0][0].set_ylabel("time of a call / limit")
    panels[0][-1].legend(frameon=False, fontsize=9)
    style.save(figure, "dispatch_devices", "Dispatch, arrays fed back", records)
