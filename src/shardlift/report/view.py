"""The content of a report, computed once for all formats."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardlift.capture.schema import Capture, SiteFacts
from shardlift.report import numbers
from shardlift.report.findings import ReportItem, findings_of


@dataclass(frozen=True)
class SiteView:
    """A site with its numbers and its findings."""

    site: SiteFacts
    index: int  # in the capture
    parts: numbers.TimeParts
    findings: tuple[ReportItem, ...]
    place: str  # `train.py:12`

    @property
    def calls(self) -> str:
        """The number of calls; in a job of several processes, the number per process."""
        processes = len(self.site.processes)
        per_process = f"{self.site.calls / max(processes, 1):,.0f}".replace(",", " ")
        return per_process + (f" {numbers.TIMES} {processes}" if processes > 1 else "")


@dataclass(frozen=True)
class View:
    """A report, before it is formatted."""

    capture: Capture
    path: str
    sites: tuple[SiteView, ...]  # the most expensive first
    unseen: tuple[str, ...]

    @property
    def decisions(self) -> int:
        """The number of sites about which the user has to decide something."""
        return sum(any(finding.decision for finding in site.findings) for site in self.sites)

    @property
    def headline(self) -> str:
        """``3 pmap sites; 41 % of step time is moving data; 2 need a decision``."""
        sites = self.capture.sites
        kinds = {site.kind for site in sites}
        kind = f"{kinds.pop()} site" if len(kinds) == 1 else "mapped site"
        number = numbers.count(len(sites), kind)
        if not any(site.calls or site.nested or site.transformed for site in sites):
            return f"{number}, none called" if sites else "this run has no pmap site"
        moving = numbers.moving_share(self.capture)
        time = "no step was timed: every call compiled a program"
        if moving is not None:
            time = f"{numbers.percent(moving)} of step time is moving data"
        return f"{number}; {time}; {decisions_text(self.decisions)}"


def decisions_text(undecided: int) -> str:
    """``2 need a decision``, of sites."""
    if not undecided:
        return "none needs a decision"
    return f"{undecided} {'needs' if undecided == 1 else 'need'} a decision"


def view_of(capture: Capture, path: str) -> View:
    """The report of a capture that was read from ``path``."""
    views = [
        SiteView(
            site,
            k,
            numbers.parts_of(site),
            tuple(findings_of(site, capture)),
            capture.place(site.file, site.line),
        )
        for k, site in enumerate(capture.sites)
    ]
    views.sort(key=lambda view: -numbers.cost_of(view.site))
    return View(capture, path, tuple(views), tuple(_unseen(capture)))


def about(capture: Capture) -> list[str]:
    """The run: command, versions, devices and duration."""
    texts = [" ".join(capture.command)] if capture.command else []
    if capture.processes:
        first = capture.processes[0]
        devices = sum(len(process.devices) for process in capture.processes)
        texts += [f"jax {first.jax}", f"Python {first.python}"]
        if devices:
            kind = (
                f"{first.platform} ({first.device_kind})" if first.device_kind else first.platform
            )
            texts.append(f"{numbers.count(devices, 'device')}, {kind}")
        if missing := len(capture.missing):
            present = len(capture.processes)
            texts.append(f"{present} of {present + missing} processes")
        elif len(capture.processes) > 1:
            texts.append(numbers.count(len(capture.processes), "process"))
    texts.append(f"ran {numbers.seconds(capture.seconds)}")
    if not capture.patched:
        texts.append("jax.pmap was only observed")
    return texts


def missing_processes(capture: Capture) -> Iterator[str]:
    """What is not known because processes wrote no part of the capture, or did not end."""
    all_of_them = max((process.count for process in capture.processes), default=1)
    if missing := capture.missing:
        yield f"{_processes(missing)} of {all_of_them}, which wrote no part of the record"
    if cut := [process for process in capture.processes if not process.ended]:
        hosts = sorted({process.host for process in cut if process.host})
        where = f" (on {numbers.list_names(hosts)})" if hosts else ""
        names = _processes([process.index for process in cut])
        yield f"the rest of {names} of {all_of_them}{where}, which did not come to an end"


def _processes(indices: Sequence[int]) -> str:
    noun = "process" if len(indices) == 1 else "processes"
    return f"{noun} {numbers.list_names(map(str, indices), most=8)}"


def _unseen(capture: Capture) -> Iterator[str]:
    yield from missing_processes(capture)
    yield from capture.unseen
    for site in capture.sites:
        where = f"{site.function} ({capture.place(site.file, site.line)})"
        for text in (*site.unseen, *_gaps(site)):
            yield f"{where}: {text}"


def _gaps(site: SiteFacts) -> Iterator[str]:
    if not site.calls:
        return
    if not site.times.call.count:
        yield "the time of a call, since every call compiled a program"
    elif not site.times.waiting.count:
        yield "how long its outputs took, since no call could be sampled"
    blind = sum(leaf.axis is not None and not leaf.compared for leaf in site.arguments)
    if blind and site.looked:
        is_are = "is" if blind == 1 else "are"
        yield f"whether {numbers.count(blind, 'argument')} {is_are} the same on all devices"
