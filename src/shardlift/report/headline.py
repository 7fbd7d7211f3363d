"""The first sentence of a report, and its number."""

from __future__ import annotations

from shardlift.capture.schema import Capture
from shardlift.report.numbers import count, percent, share, total_parts


def moving_share(capture: Capture) -> float | None:
    """The share of step time in which data is moved or converted; None if no step was timed."""
    parts = total_parts(capture)
    return share(parts.moving_data, parts.total) if parts.total > 0 else None


def headline(capture: Capture, undecided: int) -> str:
    """``3 pmap sites; 41 % of step time is moving data; 2 need a decision``."""
    if not any(site.calls or site.nested or site.transformed for site in capture.sites):
        sites = count(len(capture.sites), _site(capture))
        return f"{sites}, none called" if capture.sites else "this run has no pmap site"
    moving = moving_share(capture)
    time = (
        "no step was timed: every call compiled a program"
        if moving is None
        else f"{percent(moving)} of step time is moving data"
    )
    verb = "needs" if undecided == 1 else "need"
    last = f"{undecided} {verb} a decision" if undecided else "none needs a decision"
    return f"{count(len(capture.sites), _site(capture))}; {time}; {last}"


def _site(capture: Capture) -> str:
    kinds = {site.kind for site in capture.sites}
    return f"{kinds.pop()} site" if len(kinds) == 1 else "mapped site"
