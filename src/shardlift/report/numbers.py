"""The numbers of a report, from the facts of a capture."""

from collections.abc import Iterable
from typing import NamedTuple

from shardlift.capture.schema import Capture, MovedBy, SiteFacts

TIMES = "\N{MULTIPLICATION SIGN}"


class TimeParts(NamedTuple):
    """Where the time of all calls of a site went, in seconds, without calls that compiled."""

    waiting: float = 0.0  # from the return of the call until its outputs were ready
    dispatch: float = 0.0
    moving: float = 0.0

    @property
    def total(self) -> float:
        """The sum of all parts."""
        return sum(self)


def parts_of(site: SiteFacts) -> TimeParts:
    """The time of the calls that did not compile.

    What the program moves inside the call was timed separately on a few calls, and is subtracted
    from the dispatch. Waiting was sampled on some calls, and is assumed to be alike on all.
    """
    times = site.times
    calls = times.call.count
    dispatch = max(0.0, times.call.total - times.moving.total)
    by_program = min(dispatch, times.probes.quantile(0.5) * calls * moved_share(site))
    return TimeParts(
        waiting=times.waiting.mean * calls,
        dispatch=dispatch - by_program,
        moving=times.moving.total + by_program,
    )


def moved_share(site: SiteFacts) -> float:
    """The share of calls in which the program had to move arguments."""
    seen = max((move.count for move in site.moves if move.by is MovedBy.PROGRAM), default=0)
    return min(1.0, seen / site.looked) if site.looked else 0.0


def moved_bytes(site: SiteFacts) -> float:
    """Bytes of arguments moved by an average call."""
    calls = max(site.calls, 1)
    return sum(
        move.nbytes / (calls if move.by is MovedBy.PMAP else max(site.looked, 1))
        for move in site.moves
    )


def wasted_bytes(site: SiteFacts) -> int:
    """Bytes of arguments that are the same on all devices, beyond the first copy."""
    return sum(
        leaf.nbytes - leaf.nbytes // max(site.axis_size, 1)
        for leaf in site.arguments
        if leaf.axis is not None and leaf.equal and leaf.compared
    )


def total_parts(capture: Capture) -> TimeParts:
    """The parts of all sites together."""
    parts = [parts_of(site) for site in capture.sites]
    return TimeParts(*map(sum, zip(*parts, strict=True))) if parts else TimeParts()


def moving_share(capture: Capture) -> float | None:
    """The share of step time in which data is moved; None if no step was timed."""
    parts = total_parts(capture)
    return share(parts.moving, parts.total) if parts.total > 0 else None


def cost_of(site: SiteFacts) -> float:
    """The time of all calls, with those that compiled; sites are sorted by it."""
    return parts_of(site).total + site.times.compiling.total


def share(part: float, whole: float) -> float:
    """A part of a whole, between 0 and 1."""
    return min(1.0, part / whole) if whole > 0 else 0.0


# ---- as text


def percent(part: float) -> str:
    """``41 %``; 0 and 100 only if they are exact.

    >>> percent(0.414), percent(0.001), percent(0.999), percent(0.0)
    ('41 %', '<1 %', '>99 %', '0 %')
    """
    if 0 < part < 0.01:
        return "<1 %"
    return ">99 %" if 0.99 < part < 1 else f"{100 * part:.0f} %"


def seconds(value: float) -> str:
    """A time with a suitable unit.

    >>> seconds(0.00123), seconds(12.0), seconds(3e-6), seconds(0), seconds(3723)
    ('1.23 ms', '12.0 s', '3.00 µs', '0 s', '62 min')
    """
    if value <= 0:
        return "0 s"
    if value >= 600:
        return f"{value / 60:.0f} min"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= 0.9995 * size:
            return f"{_three_digits(value / size)} {unit}"
    return f"{value * 1e9:.0f} ns"


def amount(nbytes: float) -> str:
    """A number of bytes with a suitable unit.

    >>> amount(17), amount(2097152), amount(1536)
    ('17 B', '2.00 MiB', '1.50 KiB')
    """
    if nbytes < 1024:
        return f"{nbytes:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        nbytes /= 1024
        if nbytes < 1024:
            return f"{_three_digits(nbytes)} {unit}"
    return f"{_three_digits(nbytes / 1024)} TiB"


def _three_digits(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def count(number: int, noun: str) -> str:
    """``1 site``, ``2 sites``, ``2 processes``."""
    plural = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}".replace(",", " ") + plural


def list_names(names: Iterable[str], most: int = 3) -> str:
    """The first few names, and the number of the others."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
