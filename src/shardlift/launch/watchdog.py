"""Looks at the processes of a job from time to time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shardlift.launch.cpu import cpu_seconds
from shardlift.launch.diagnosis import Diagnosis
from shardlift.launch.stuck import Sample, StuckClock

__all__ = ["Watchdog", "WhenStuck"]


@dataclass(frozen=True)
class WhenStuck:
    """What to do with a job in which nothing has happened for ``after`` seconds."""

    after: float
    report: Callable[[Diagnosis], None]  # is called if the job goes on
    end: bool = False  # end the job; its outcome has the diagnosis


class Watchdog:
    """Takes a sample when it is time for one."""

    def __init__(self, after: float) -> None:
        """A job is stuck when nothing has happened for ``after`` seconds."""
        self._clock = StuckClock(after)
        self._next = 0.0

    @property
    def quiet(self) -> float:
        """For how many seconds nothing has happened."""
        return self._clock.quiet

    def is_stuck(self, pids: Sequence[int], heard: int) -> bool:
        """True when the job has just become stuck; ``heard`` counts what processes have said."""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + self._clock.interval
        cpu = cpu_seconds(pids)
        return cpu is not None and self._clock.add(Sample(now, cpu, heard))
