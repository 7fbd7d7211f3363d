"""The one sentence, and its one number."""

from __future__ import annotations

from shardlift.capture.schema import Capture
from shardlift.report.findings import findings_of
from shardlift.report.numbers import count, percent, share, total_parts


def moving_share(capture: Capture) -> float | None:
    """The part of all step time in which data is moved or converted; None: no step was timed."""
    parts = total_parts(capture)
    return share(parts.moving_data, parts.total) if parts.total > 0 else None


def decisions(capture: Capture) -> int:
    """How many sites have something that somebody must decide."""
    return sum(
        any(finding.decision for finding in findings_of(site, capture)) for site in capture.sites
    )


def headline(capture: Capture) -> str:
    """``3 pmap sites; 41 % of step time is moving data; 2 need a decision``."""
    if not any(site.calls or site.nested or site.transformed for site in capture.sites):
        made = count(len(capture.sites), _site(capture))
        return f"{made} made, none called" if capture.sites else "no pmap was made in this run"
    moving = moving_share(capture)
    time = (
        "no step was timed: every call compiled a program"
        if moving is None
        else f"{percent(moving)} of step time is moving data"
    )
    undecided = decisions(capture)
    verb = "needs" if undecided == 1 else "need"
    last = f"{undecided} {verb} a decision" if undecided else "none needs a decision"
    return f"{count(len(capture.sites), _site(capture))}; {time}; {last}"


def _site(capture: Capture) -> str:
    kinds = {site.kind for site in capture.sites}
    return f"{kinds.pop()} site" if len(kinds) == 1 else "mapped site"
