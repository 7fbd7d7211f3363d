"""How much CPU time the processes of a job have used, with all that they started.

Linux: from ``/proc``, by session. Elsewhere, macOS for example: from ``ps``, by process group.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

__all__ = ["cpu_seconds", "own_cpu_seconds"]

_PROC = "/proc/self/stat"


def cpu_seconds(leaders: Sequence[int]) -> tuple[float, ...] | None:
    """CPU seconds that each session has used, given by its leader's id; None if unknown."""
    try:
        used = by_session() if os.path.exists(_PROC) else by_group()
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return tuple(used[leader] for leader in leaders)


def own_cpu_seconds() -> float:
    """CPU seconds of this process and all that it started, as far as that is known."""
    try:
        table = {pid: (stat.parent, stat.ticks) for pid, stat in read_stats()}
    except OSError:  # no /proc: children count when they have ended
        return sum(os.times()[:4])
    family = {os.getpid()}
    while more := {pid for pid, (parent, _) in table.items() if parent in family} - family:
        family |= more
    tick: int = os.sysconf("SC_CLK_TCK")
    return sum(table[pid][1] for pid in family if pid in table) / tick


def by_session() -> Counter[int]:
    """From ``/proc``: threads, and children that were waited for, are counted with a process."""
    used: Counter[int] = Counter()
    tick: int = os.sysconf("SC_CLK_TCK")
    for _, stat in read_stats():
        used[stat.session] += stat.ticks / tick  # type: ignore[assignment]
    return used


class Stat(NamedTuple):
    """A part of ``/proc/PID/stat``."""

    parent: int
    session: int
    ticks: int


def read_stats() -> Iterator[tuple[int, Stat]]:
    """Every process of this machine."""
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                line = file.read()
        except OSError:  # it has ended
            continue
        yield int(pid), parse_stat(line)


def parse_stat(line: str) -> Stat:
    """Read a line of ``/proc/PID/stat``; the name, in (), may hold anything.

    >>> parse_stat("7 (a (b) c) S 1 7 5 0 -1 0 9 9 9 9 100 20 3 4 20 0")
    Stat(parent=1, session=5, ticks=127)
    """
    fields = line.rpartition(")")[2].split()
    return Stat(int(fields[1]), int(fields[3]), sum(map(int, fields[11:15])))


def by_group() -> Counter[int]:
    """From ``ps``, which POSIX has."""
    command = ["ps", "-A", "-o", "pgid=", "-o", "time="]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    return parse_ps(done.stdout.splitlines())


def parse_ps(lines: Iterable[str]) -> Counter[int]:
    """Seconds by process group.

    >>> parse_ps(["  7   0:01.50", "  7 1-02:00:03", "  9 00:10"])
    Counter({7: 93604.5, 9: 10.0})
    """
    used: Counter[int] = Counter()
    for line in lines:
        group, time = line.split()
        days, *clock = [
            float(part) for part in re.split("[-:]", time if "-" in time else f"0-{time}")
        ]
        seconds = 0.0
        for part in clock:
            seconds = 60 * seconds + part
        used[int(group)] += 86400 * days + seconds  # type: ignore[assignment]
    return used
