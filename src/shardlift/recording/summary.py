"""The lines that are printed when a recorded program has ended."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from shardlift.capture.schema import Capture

_NAMES = 6  # that are listed


def summarise(capture: Capture, path: str) -> list[str]:
    """A few lines, with the next command to type if the capture is at ``path``."""
    from shardlift.report.view import view_of

    lines = [view_of(capture, "").headline]
    if capture.used:
        lines.append(f"restored names that were used: {list_counts(capture.used)}")
    if path and capture.sites:
        lines.append(f"next: shardlift report {shlex.quote(path)}")
    return lines


def list_counts(counts: Mapping[str, int]) -> str:
    """The names with the highest counts."""
    names = sorted(counts, key=lambda name: -counts[name])
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(f"{name} ({counts[name]})" for name in names[:_NAMES]) + more
