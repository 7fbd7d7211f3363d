"""What the figures have in common: grey, told apart by mark and dash, the newest JAX first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib

from bench.harness import ROOT, Record
from bench.page import load

matplotlib.use("Agg")
from matplotlib import pyplot as plt

FOLDER = ROOT / "docs" / "figures"
LIMIT_LOOK: dict[str, Any] = {"color": "0.7", "linestyle": "-", "linewidth": 3, "zorder": 1.9}
LOOKS: tuple[dict[str, Any], ...] = (
    {"color": "black", "marker": "o", "linestyle": "-"},
    {"color": "0.45", "marker": "s", "linestyle": "--", "markerfacecolor": "white"},
    {"color": "0.25", "marker": "^", "linestyle": ":"},
    {"color": "0.6", "marker": "D", "linestyle": "-.", "markerfacecolor": "white"},
)


def newest(name: str, platform: str | None = None) -> list[Record]:
    """The records of the newest JAX on each platform, or on one."""
    chosen: dict[str, list[Record]] = {}
    for records in sorted(load(name), key=_version):
        chosen[records[0]["platform"]] = records
    return [r for p, records in chosen.items() if platform in (None, p) for r in records]


def _version(records: Sequence[Record]) -> list[int]:
    return [int(part) for part in records[0]["jax"].split(".") if part.isdigit()]


def panels(columns: int, lines: int = 1) -> tuple[Any, Any]:
    """A figure and its panels, which share their axes."""
    size = (1.2 + 2.9 * columns, 0.9 + 2.3 * lines)
    return plt.subplots(
        lines, columns, sharex=True, sharey=True, squeeze=False, figsize=size, layout="constrained"
    )


def curve(panel: Any, points: dict[int, float], label: str, look: dict[str, Any]) -> None:
    """One contender: a number for each size."""
    sizes = sorted(points)
    panel.plot(sizes, [points[size] for size in sizes], label=label, **look)


def finish(panel: Any, sizes: Sequence[int], *, log: bool = True) -> None:
    """The axes of a panel."""
    if log:
        panel.set_xscale("log")
    panel.set_xticks(sizes, [str(size) for size in sizes])
    panel.minorticks_off()
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(axis="y", color="0.92")
    panel.set_axisbelow(True)


def save(figure: Any, name: str, title: str, records: Sequence[Record]) -> None:
    """Write it; the title says which JAX."""
    versions = ", ".join(sorted({f"jax {record['jax']}" for record in records}))
    figure.suptitle(f"{title}, {versions}", fontsize=11)
    FOLDER.mkdir(parents=True, exist_ok=True)
    # Without the date and the version of matplotlib: the same numbers are the same file.
    figure.savefig(FOLDER / f"{name}.png", dpi=150, metadata={"Software": None})
    plt.close(figure)
