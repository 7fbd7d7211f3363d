"""One process of a job that Slurm, MPI, Kubernetes or a person started.

Each process writes its part of the record beside FILE: when the program ends,
and from time to time before, so that a process that is killed leaves what it had seen. When all
have ended, process 0 merges the parts and prints the summary of the job.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import time
from types import ModuleType
from typing import Any

from shardlift._import_hook import AfterImport
from shardlift.capture.files import CaptureError
from shardlift.capture.parts import find_parts, merge_parts, part_path, read_whole
from shardlift.launch.scheduler import place_by_scheduler
from shardlift.launch.session import RunSession

__all__ = ["Member"]

_PATIENCE = 6.0  # seconds that process 0 waits for parts when JAX says that all have ended


class Member:
    """This process, as a member of a job of many; on its own, nothing happens."""

    def __init__(self, session: RunSession) -> None:
        """To be called before the program runs."""
        self.session = session
        self.record = session.options.record
        self.place: tuple[int, int] | None = None  # once it has joined: its number, and of all
        self._ended = False
        if self.record is not None:
            place = place_by_scheduler(os.environ)
            session.path = part_path(self.record, place[0]) if place else self.record
            session.keep_writing()
        # Before JAX registers its handler, which waits for all processes: so this one runs later.
        atexit.register(self._merge)
        jax = sys.modules.get("jax")
        if jax is not None and hasattr(jax, "distributed"):
            self._hook(jax)
        else:
            AfterImport("jax", self._hook).install()

    def _hook(self, jax: ModuleType) -> None:
        own = jax.distributed.initialize

        @functools.wraps(own)
        def initialize(*args: Any, **kwargs: Any) -> Any:
            out = own(*args, **kwargs)
            self._join()
            return out

        jax.distributed.initialize = initialize

    def _join(self) -> None:
        from shardlift import _compat

        self.place = _compat.place_in_job() or place_by_scheduler(os.environ)
        if self.place is None or self.place[1] == 1:
            self.place = None
            return
        if self.record is not None and self.session.observer is not None:
            from shardlift.recording.process import job_name

            self.session.path = part_path(self.record, self.place[0])
            job_name()
            self.session.joined = True

    # ---- when it ends

    def end(self, status: Any) -> bool:
        """Write the record; False if there is one, and it could not be written.

        ``status`` is what the program gave to ``sys.exit``, or 1 if it raised an error.
        """
        self._ended = True
        failed = status not in (0, None)
        session = self.session
        if self.place is None:
            return session.end()
        process, count = self.place
        written = session.end(quiet=process > 0 or self.record is not None)
        if failed:
            part = f"; its part of the record is {session.path}" if self.record and written else ""
            session.print([f"process {process} of {count} failed{part}"])
        return written

    def _merge(self) -> None:
        """At the exit of process 0: merge the parts, and print one summary."""
        if self.place is None or self.place[0] or self.record is None or not self._ended:
            return
        if os.getpid() != self.session.process or self.session.observer is None:
            return
        try:
            _wait_for_parts(self.record, self.place[1])
            # The values of calls are beside each part; `verify` reads them there.
            taped = self.session.options.tape is not None
            whole = read_whole(self.record) if taped else merge_parts(self.record)
        except (OSError, CaptureError) as error:
            self.session.print([f"the parts of the record could not be merged: {error}"])
            return
        if not self.session.options.quiet:
            from shardlift.recording.summary import summarise

            self.session.print(summarise(whole, self.record))


def _wait_for_parts(record: str, count: int) -> None:
    """Until all have written their last one, or for a few seconds."""
    deadline, pause = time.monotonic() + _PATIENCE, 0.1
    while time.monotonic() < deadline:
        parts = find_parts(record)
        if all(k in parts for k in range(count)):
            whole = read_whole(record)
            if not whole.missing and all(process.ended for process in whole.processes):
                return
        time.sleep(pause)
        pause *= 2
