"""The progress of a migration as a table, JSON, and two kinds of badge."""

from __future__ import annotations

import json
from dataclasses import asdict
from html import escape
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from shardlift._escape import escape_control
from shardlift.cli.progress import Counts, Progress
from shardlift.report.numbers import count, percent

LABEL = "off pmap"
_BADGE = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" \
aria-label="{label}: {message}">
<title>{label}: {message}</title>
<rect width="{left}" height="20" fill="#555"/>
<rect x="{left}" width="{right}" height="20" fill="{colour}"/>
<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">
<text x="{left_middle}" y="14">{label}</text>
<text x="{right_middle}" y="14">{message}</text>
</g>
</svg>
"""
_COLOURS = {"red": "#c6413a", "orange": "#d9782d", "yellow": "#b58900", "brightgreen": "#2e8b3d"}


def table(progress: Progress, console: Console) -> None:
    """One row per folder, the total, and a sentence."""
    columns = ["left", *(["shim"] if progress.total.shim else []), "migrated", "verified"]
    rows = Table(box=None, pad_edge=False)
    rows.add_column("folder", overflow="fold")
    for column in columns:
        rows.add_column(column, justify="right")
    for folder, counts in progress.folders.items():
        rows.add_row(Text(escape_control(folder)), *_cells(counts, columns))
    if len(progress.folders) != 1:
        rows.add_row("total", *_cells(progress.total, columns), style="bold")
    if progress.folders:
        console.print(rows)
    for line in sentences(progress):
        console.print(Text(escape_control(line)), soft_wrap=True)


def _cells(counts: Counts, columns: list[str]) -> list[str]:
    return [str(getattr(counts, column)) for column in columns]


def sentences(progress: Progress) -> list[str]:
    """The result, what could not be looked at, and the next command."""
    total = progress.total
    if not total.total:
        lines = ["There is no pmap site, and no shard_map site."]
    else:
        lines = [
            f"{total.migrated} of {count(total.total, 'site')} migrated ({percent(total.share)}), "
            f"{total.verified} verified."
        ]
    for path in progress.stale:
        lines.append(f"{path} has changed since it was verified, so its sites do not count.")
    for path, why in progress.unreadable:
        lines.append(f"NOT looked at: {path}: {why}")
    if total.left:
        lines.append("Next: shardlift migrate PATH   (shows how the rest would be rewritten)")
    elif total.migrated > total.verified:
        lines.append("Next: shardlift verify BEFORE AFTER --format json > FILE")
    return lines


def machine(progress: Progress) -> str:
    """One JSON document; `version` is the version of its schema."""
    document = {
        "version": 1,
        **_counts(progress.total),
        "folders": {folder: _counts(counts) for folder, counts in progress.folders.items()},
        "stale": list(progress.stale),
        "not_looked_at": [{"path": path, "reason": why} for path, why in progress.unreadable],
    }
    return json.dumps(document, indent=2)


def _counts(counts: Counts) -> dict[str, Any]:
    return {**asdict(counts), "share": round(counts.share, 4)}


def shields(progress: Progress) -> str:
    """The JSON of a shields.io endpoint badge."""
    message, colour = _message(progress.total), _colour(progress.total)
    return json.dumps({"schemaVersion": 1, "label": LABEL, "message": message, "color": colour})


def svg(progress: Progress) -> str:
    """A badge that needs no other service."""
    message = _message(progress.total)
    left, right = 10 + 7 * len(LABEL), 10 + 7 * len(message)
    return _BADGE.format(
        label=escape(LABEL),
        message=escape(message),
        colour=_COLOURS[_colour(progress.total)],
        width=left + right,
        left=left,
        right=right,
        left_middle=left / 2,
        right_middle=left + right / 2,
    )


def _message(total: Counts) -> str:
    return percent(total.share) if total.total else "no pmap"


def _colour(total: Counts) -> str:
    if total.share == 1:
        return "brightgreen"
    return "yellow" if total.share >= 0.5 else "orange" if total.share > 0 else "red"
