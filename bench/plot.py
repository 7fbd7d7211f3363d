"""One figure: the dispatch ratio against the number of leaves. ``python -m bench.plot``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib

from bench.harness import JAX, LIMIT, OURS, ROOT, Record
from bench.page import load

matplotlib.use("Agg")
from matplotlib import pyplot as plt

FIGURE = ROOT / "docs" / "figures" / "dispatch.png"
CASES = {"fed back": "arrays on the devices, fed back", "NumPy": "NumPy arrays"}
# Told apart by mark and dash, so that it can be printed in grey.
LOOKS: dict[str, dict[str, Any]] = {
    OURS: {"color": "black", "marker": "o", "linestyle": "-"},
    JAX: {"color": "0.45", "marker": "s", "linestyle": "--", "markerfacecolor": "white"},
    LIMIT: {"color": "0.7", "linestyle": "-", "linewidth": 3, "zorder": 1.9},
}


def newest() -> list[Record]:
    """The records of the newest JAX on each platform."""
    chosen: dict[str, list[Record]] = {}
    for records in sorted(load("dispatch"), key=_version):
        chosen[records[0]["platform"]] = records
    return [record for records in chosen.values() for record in records]


def _version(records: Sequence[Record]) -> list[int]:
    return [int(part) for part in records[0]["jax"].split(".") if part.isdigit()]


def draw() -> None:
    """Draw a column of panels for each platform and device count."""
    records = newest()
    columns = sorted({(record["platform"], record["devices"]) for record in records})
    figure, panels = plt.subplots(
        len(CASES), len(columns), sharex=True, sharey=True, squeeze=False,
        figsize=(1.2 + 2.9 * len(columns), 5.4), layout="constrained",
    )  # fmt: skip
    for line, case in enumerate(CASES):
        for column, place in enumerate(columns):
            here = [r for r in records if (r["platform"], r["devices"]) == place]
            _panel(panels[line][column], [r for r in here if r["case"] == case])
        panels[line][0].set_ylabel(f"time of a call / limit\n{CASES[case]}")
    for column, (platform, devices) in enumerate(columns):
        many = "s" if devices > 1 else ""
        panels[0][column].set_title(f"{devices} {platform.upper()} device{many}", fontsize=10)
        panels[-1][column].set_xlabel("leaves")
    panels[0][-1].legend(frameon=False, fontsize=9)
    versions = ", ".join(sorted({f"jax {record['jax']}" for record in records}))
    figure.suptitle(f"Dispatch beside bare jit(shard_map), {versions}", fontsize=11)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=150)


def _panel(panel: Any, records: Sequence[Record]) -> None:
    leaves = [record["leaves"] for record in records]
    for name, look in LOOKS.items():
        panel.plot(leaves, [record["ratio"][name] for record in records], label=name, **look)
    panel.set_xscale("log")
    panel.set_xticks(leaves, [str(count) for count in leaves])
    panel.minorticks_off()
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="y", color="0.92")
    panel.set_axisbelow(True)


if __name__ == "__main__":
    draw()
