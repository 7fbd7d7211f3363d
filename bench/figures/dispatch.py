"""Dispatch over the limit, against the number of leaves: a column for each device count."""

from __future__ import annotations

from bench.figures import style
from bench.harness import JAX, LIMIT, OURS

CASES = {"fed back": "arrays on the devices, fed back", "NumPy": "NumPy arrays"}
LOOKS = {OURS: style.LOOKS[0], JAX: style.LOOKS[1], LIMIT: style.LIMIT_LOOK}


def draw() -> None:
    """One panel for each platform, device count and kind of input."""
    records = style.newest("dispatch")
    columns = sorted({(r["platform"], r["devices"]) for r in records if r["devices"] in (1, 8)})
    if not columns:
        return
    figure, panels = style.panels(len(columns), len(CASES))
    for line, case in enumerate(CASES):
        for column, place in enumerate(columns):
            here = [
                r for r in records if (r["platform"], r["devices"]) == place and r["case"] == case
            ]
            for name, look in LOOKS.items():
                points = {r["size"]: r["ratio"][name] for r in here}
                style.curve(panels[line][column], points, name, look)
            style.finish(panels[line][column], [r["size"] for r in here])
        panels[line][0].set_ylabel(f"time of a call / limit\n{CASES[case]}")
    for column, (platform, devices) in enumerate(columns):
        many = "s" if devices > 1 else ""
        panels[0][column].set_title(f"{devices} {platform.upper()} device{many}", fontsize=10)
        panels[-1][column].set_xlabel("leaves")
    panels[0][-1].legend(frameon=False, fontsize=9)
    style.save(figure, "dispatch", "Dispatch beside bare jit(shard_map)", records)
