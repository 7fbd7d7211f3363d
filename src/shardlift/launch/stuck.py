"""Is a job stuck? Decided from samples of what its processes used and printed."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Sample", "StuckClock"]

# What an idle process uses. Jobs that hang in a collective, 2x2, 2x4 and 4x2 virtual devices with
# gloo, used 1.9 to 4.0 ms of CPU per second and process (JAX 0.10.2 and 0.12.0.1), on an idle and a
# busy machine: threads of the runtime that wake up to look around. The kernel counts in ticks of
# 10 ms, hence the second number.
IDLE_SHARE = 0.02  # of one core
IDLE_TICKS = 0.02  # seconds
LONGEST_INTERVAL = 2.0  # between two samples, in seconds
PATIENCE = 10  # a job that moved again is reported again after so many times the limit


@dataclass(frozen=True)
class Sample:
    """One look at a job."""

    at: float  # seconds, by a clock that only goes forward
    cpu: tuple[float, ...]  # CPU seconds so far, of each process and all that it started
    printed: int  # how often any of them has printed something


class StuckClock:
    """Measures for how long a job has done nothing.

    >>> clock = StuckClock(limit=60)
    >>> quiet = [Sample(at=2.0 * k, cpu=(1.5, 1.7), printed=8) for k in range(40)]
    >>> [sample.at for sample in quiet if clock.add(sample)]
    [60.0]
    """

    def __init__(self, limit: float) -> None:
        """A job is stuck when it has done nothing for ``limit`` seconds."""
        self.interval = min(LONGEST_INTERVAL, limit / 4)
        self.quiet = 0.0  # seconds in which nothing has happened
        self.limit = self._next_limit = limit
        self._last: Sample | None = None
        self._reported = False

    def add(self, sample: Sample) -> bool:
        """Take the next sample; True when the job has just become stuck."""
        last, self._last = self._last, sample
        if last is None:
            return False
        if has_moved(last, sample):
            self.quiet, self._reported = 0.0, False
            return False
        # While the launcher itself is stopped, by Ctrl-Z for example, it sees nothing.
        self.quiet += min(sample.at - last.at, 2 * self.interval)
        if self._reported or self.quiet < self._next_limit:
            return False
        self._reported, self._next_limit = True, PATIENCE * self.limit
        self._last = None  # the processes use some CPU time to answer what they wait for
        return True


def has_moved(last: Sample, sample: Sample) -> bool:
    """Whether a process printed, computed, or ended between two samples."""
    idle = IDLE_TICKS + IDLE_SHARE * (sample.at - last.at)
    pairs = zip(last.cpu, sample.cpu, strict=True)
    # Less than before: something that a process had started is gone.
    return sample.printed != last.printed or any(abs(now - then) > idle for then, now in pairs)
