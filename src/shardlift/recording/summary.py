"""The lines that are printed when a recorded program has ended."""

import shlex
from collections import Counter
from collections.abc import Mapping

from shardlift.capture.schema import Capture


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
    from shardlift.report.numbers import list_names

    ranked = Counter(counts).most_common()
    return list_names((f"{name} ({number})" for name, number in ranked), most=6)
