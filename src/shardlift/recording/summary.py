"""The lines that are printed when a recorded program has ended."""

from __future__ import annotations

import shlex

from shardlift.capture.schema import Capture

__all__ = ["summarise"]

_NAMES = 5  # that are listed


def summarise(capture: Capture, path: str) -> list[str]:
    """A few lines, with the next command to type if the capture is at ``path``."""
    from shardlift.report.view import view_of

    lines = [view_of(capture, "").headline]
    if capture.used:
        names = sorted(capture.used.items(), key=lambda item: -item[1])
        listed = ", ".join(f"{name} ({count})" for name, count in names[:_NAMES])
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        lines.append(f"restored names that were used: {listed}{more}")
    if path and capture.sites:
        lines.append(f"next: shardlift report {shlex.quote(path)}")
    return lines
