"""Is a job stuck? Decided by the CPU time that its processes use, and by what they print."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from shardlift._own_files import is_own

_THREAD = re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+")
_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')


class StackFrame(NamedTuple):
    """One frame of a stack."""

    file: str
    line: int
    function: str


def parse_dump(lines: Iterable[str], package: str = "") -> tuple[StackFrame, ...] | None:
    """The frames of the user's program in the main thread, innermost first; None: no answer.

    ``faulthandler`` writes newer threads first, and the main one last. ``package`` is the
    program's own, which may be an installed one.
    """
    frames: list[StackFrame] | None = None
    for line in lines:
        if _THREAD.match(line):
            frames = []
        elif frames is not None and (match := _FRAME.match(line)):
            frames.append(StackFrame(match["file"], int(match["line"]), match["function"]))
    return None if frames is None else tuple(f for f in frames if is_own(f.file, package))


# What an idle process uses. Jobs that hang in a collective, 2x2, 2x4 and 4x2 virtual devices with
# gloo, used 1.9 to 4.0 ms of CPU per second and process (JAX 0.10.2 and 0.12.0.1), on an idle and a
# busy machine: threads of the runtime that wake up to look around. The kernel counts in ticks of
# 10 ms, hence the second number.
IDLE_SHARE = 0.02  # of one core
IDLE_TICKS = 0.02  # seconds
LONGEST_INTERVAL = 2.0  # between two looks, in seconds


class StuckProcess(NamedTuple):
    """One process of a stuck job."""

    process: int
    pid: int
    stack: tuple[StackFrame, ...] | None  # of the program, innermost first; None: no answer
    ended: bool = False


class StuckJob(NamedTuple):
    """A job in which nothing has happened for so many seconds, and those of its processes that
    were asked for their stacks."""

    seconds: float
    processes: int
    states: tuple[StuckProcess, ...]


@dataclass(frozen=True)
class WhenStuck:
    """What to do with a job in which nothing has happened for ``after`` seconds."""

    after: float
    report: Callable[[StuckJob], None]
    end: bool = False


class Activity(NamedTuple):
    """One look at a job."""

    at: float  # seconds, by a clock that only goes forward
    cpu: tuple[float, ...]  # CPU seconds so far, of each process and all that it started
    printed: int  # how often any of them has printed something


class StuckClock:
    """Measures for how long a job has done nothing.

    >>> clock = StuckClock(limit=60)
    >>> quiet = [Activity(at=2.0 * k, cpu=(1.5, 1.7), printed=8) for k in range(40)]
    >>> [look.at for look in quiet if clock.add(look)]
    [60.0]
    """

    def __init__(self, limit: float) -> None:
        """A job is stuck when it has done nothing for ``limit`` seconds."""
        self.interval = min(LONGEST_INTERVAL, limit / 4)
        self.quiet = 0.0  # seconds in which nothing has happened
        self._limit = limit
        self._last: Activity | None = None
        self._reported = False

    def add(self, look: Activity) -> bool:
        """Take the next look; True when the job has just become stuck."""
        last, self._last = self._last, look
        if last is None:
            return False
        if has_moved(last, look):
            self.quiet, self._reported = 0.0, False
            return False
        # While the launcher itself is stopped, by Ctrl-Z for example, it sees nothing.
        self.quiet += min(look.at - last.at, 2 * self.interval)
        if self._reported or self.quiet < self._limit:
            return False
        self._reported = True
        self._last = None  # the processes use some CPU time to write their stacks
        return True


def has_moved(last: Activity, look: Activity) -> bool:
    """Whether a process printed, computed, or ended between two looks."""
    idle = IDLE_TICKS + IDLE_SHARE * (look.at - last.at)
    pairs = zip(last.cpu, look.cpu, strict=True)
    # Less than before: something that a process had started is gone.
    return look.printed != last.printed or any(abs(now - then) > idle for then, now in pairs)


def cpu_seconds(sessions: Sequence[int]) -> tuple[float, ...] | None:
    """CPU seconds of each session of processes, by its leader; None where there is no ``/proc``."""
    ticks: Counter[int] = Counter()
    try:
        processes = [*filter(str.isdecimal, os.listdir("/proc"))]
    except OSError:
        return None
    for process in processes:
        with suppress(OSError), open(f"/proc/{process}/stat", errors="replace") as file:
            session, used = parse_stat(file.read())
            ticks[session] += used
    tick: int = os.sysconf("SC_CLK_TCK")
    return tuple(ticks[session] / tick for session in sessions)


def parse_stat(line: str) -> tuple[int, int]:
    """Session and CPU ticks in a line of ``/proc/PID/stat``; the name, in (), may hold anything.

    >>> parse_stat("7 (a (b) c) S 1 7 5 0 -1 0 9 9 9 9 100 20 3 4 20 0")
    (5, 127)
    """
    fields = line.rpartition(")")[2].split()
    return int(fields[3]), sum(map(int, fields[11:15]))
