"""What every form of the report shows, worked out once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from shardlift.capture.schema import Capture, Site
from shardlift.report.findings import Finding, findings_of
from shardlift.report.headline import headline
from shardlift.report.numbers import TIMES, Parts, cost_of, count, parts_of, percent, seconds, share

# What the parts of a site's time are called.
PART_NAMES = {
    "waiting": "computing",
    "dispatch": "dispatch",
    "moving": "moving",
    "conversion": "converting",
}


@dataclass(frozen=True)
class SiteView:
    """A site with its numbers and its findings."""

    site: Site
    index: int  # in the capture
    parts: Parts
    findings: tuple[Finding, ...]

    @property
    def place(self) -> str:
        """``train.py:12``."""
        return f"{self.site.file}:{self.site.line}"

    @property
    def calls(self) -> str:
        """How often it was called; in a job of many processes, by each."""
        many = len(self.site.processes)
        each = self.site.calls / max(many, 1)
        return f"{each:,.0f}".replace(",", " ") + (f" {TIMES} {many}" if many > 1 else "")


@dataclass(frozen=True)
class View:
    """A report, before it has a form."""

    capture: Capture
    path: str
    headline: str
    sites: tuple[SiteView, ...]  # by cost
    unseen: tuple[str, ...]

    @property
    def decisions(self) -> int:
        """How many sites need one."""
        return sum(any(f.decision for f in view.findings) for view in self.sites)


def view_of(capture: Capture, path: str) -> View:
    """The report of a capture that was read from ``path``."""
    views = [
        SiteView(site, k, parts_of(site), tuple(findings_of(site, capture)))
        for k, site in enumerate(capture.sites)
    ]
    views.sort(key=lambda view: -cost_of(view.site))
    return View(capture, path, headline(capture), tuple(views), tuple(_unseen(capture)))


def about(capture: Capture) -> list[str]:
    """The run, in a few short texts."""
    found = [" ".join(capture.command)] if capture.command else []
    if capture.processes:
        first = capture.processes[0]
        devices = sum(len(process.devices) for process in capture.processes)
        found += [f"jax {first.jax}", f"Python {first.python}"]
        if devices:
            kind = (
                f"{first.platform} ({first.device_kind})" if first.device_kind else first.platform
            )
            found.append(f"{count(devices, 'device')}, {kind}")
        if len(capture.processes) > 1:
            found.append(f"{len(capture.processes)} processes")
    found.append(f"ran {seconds(capture.seconds)}")
    if not capture.patched:
        found.append("jax.pmap was only observed")
    return found


def overhead(capture: Capture) -> str:
    """What recording took, in a sentence; measured in the run itself."""
    cost = capture.overhead
    if not cost.calls:
        return "Recording cost nothing: no call was made."
    steady = max(0.0, cost.seconds - cost.looking) / cost.calls + cost.annotation
    total = cost.seconds + cost.calls * cost.annotation
    processes = max(len(capture.processes), 1)
    part = percent(share(total, capture.seconds * processes))
    return (
        f"Recording cost {seconds(steady)} a call, and {seconds(cost.looking)} in all for close "
        f"looks at some: {part} of the run."
    )


def _unseen(capture: Capture) -> Iterator[str]:
    yield from capture.unseen
    for site in capture.sites:
        where = f"{site.function} ({site.file}:{site.line})"
        for text in (*site.unseen, *_gaps(site)):
            yield f"{where}: {text}"


def _gaps(site: Site) -> Iterator[str]:
    if not site.calls:
        return
    if not site.times.call.count:
        yield "its steady time, since every call compiled a program"
    elif not site.times.waiting.count:
        yield "how long its outputs took to be ready, since no call could be sampled"
    if not site.looked:
        yield "its arguments, which could not be taken apart"
    if site.leaves_left_out:
        yield f"its {site.leaves_left_out} smallest leaves"
    blind = sum(leaf.axis is not None and not leaf.compared for leaf in site.arguments)
    if blind and site.looked:
        yield f"whether {count(blind, 'argument')} of it are the same on all devices"
