"""One process of a job that somebody else started: Slurm, MPI, Kubernetes, or people.

Each process writes its part of the record beside FILE: when the program ends, when SIGTERM comes,
and from time to time before, so that a process that is killed leaves what it had seen. When all
have ended, process 0 merges the parts and prints the summary of the job.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from shardlift._import_hook import AfterImport
from shardlift.capture.files import CaptureError
from shardlift.capture.parts import PLACEHOLDER, find_parts, merge_parts, part_path, read_whole
from shardlift.launch.diagnosis import Diagnosis
from shardlift.launch.job import STUCK_STATUS
from shardlift.launch.scheduler import place_by_scheduler
from shardlift.launch.session import RunSession
from shardlift.launch.sigterm import Sigterm

if TYPE_CHECKING:
    from shardlift.launch.job_watch import JobWatch

__all__ = ["Member", "StuckOptions"]

_FIRST, _LONGEST = 2.0, 60.0  # seconds until the part is written for the first time; at most
_PATIENCE = 6.0  # seconds that process 0 waits for parts when JAX says that all have ended


@dataclass(frozen=True)
class StuckOptions:
    """What to do with a job in which no process has used the CPU for ``after`` seconds."""

    after: float
    report: Callable[[Diagnosis, bool], None]  # the second: is the job ended because of that?
    end: bool = False


class Member:
    """This process, as a member of a job of many; on its own, nothing happens."""

    def __init__(self, session: RunSession, stuck: StuckOptions | None = None) -> None:
        """To be called before the program runs; ``stuck`` says what to do with a stuck job."""
        self.session, self.stuck = session, stuck
        self._watch: JobWatch | None = None
        self.record = session.options.record
        self.place: tuple[int, int] | None = None  # once it has joined: its number, and of all
        self._ended, self._status = False, 0
        if self.record is not None:
            session.path = self._part(place_by_scheduler(os.environ))
        # Before JAX registers its handler, which waits for all processes: so this one runs later.
        atexit.register(self._at_exit)
        jax = sys.modules.get("jax")
        if jax is not None and hasattr(jax, "distributed"):
            self._hook(jax)
        else:
            AfterImport("jax", self._hook).install()

    def _part(self, place: tuple[int, int] | None) -> str | None:
        if self.record is None or (place is None and PLACEHOLDER not in self.record):
            return self.record
        return part_path(self.record, place[0] if place else 0)

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
        self._start_watch(self.place)
        if self.record is not None and self.session.observer is not None:
            from shardlift.recording.process import job_name

            self.session.path = self._part(self.place)
            self.session.observer.running = True
            job_name()
            self._keep_writing()

    def _start_watch(self, place: tuple[int, int]) -> None:
        from shardlift import _compat
        from shardlift.launch.job_watch import JobWatch

        client = _compat.coordination()
        if client is not None and self.stuck is not None:
            after, end, report = self.stuck.after, self.stuck.end, self.stuck.report
            self._watch = JobWatch(client, place, after, end, report, self._leave)
            self._watch.start()

    def _leave(self) -> None:
        """End this process, which is stuck, with its part of the record written."""
        self.session.write(quiet=True)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(self._status or STUCK_STATUS)

    # ---- while the program runs

    def _keep_writing(self) -> None:
        sigterm = Sigterm()
        if threading.current_thread() is threading.main_thread():
            sigterm.listen()
            sigterm.take_over()
        writer = threading.Thread(target=self._serve, args=(sigterm,), daemon=True)
        writer.name = "shardlift-parts"
        writer.start()

    def _serve(self, sigterm: Sigterm) -> None:
        interval = _FIRST
        while not self._ended:
            came, _, _ = select.select([sigterm.source], [], [], interval)
            terminated = bool(came) and sigterm.received()
            if not self._ended and (terminated or not came):
                self.session.write(quiet=True)
                interval = min(2 * interval, _LONGEST)
            if terminated:
                sigterm.note_preemption()

    # ---- when it ends

    def wait_if_ending(self) -> None:
        """Do not return if the job is being ended because it is stuck: errors mean nothing then."""
        while self._watch is not None and self._watch.is_ending():
            time.sleep(1)

    def end(self, status: Any, error: BaseException | None = None) -> bool:
        """Write the record; False if there is one, and it could not be written.

        ``status`` is what the program gave to ``sys.exit``; ``error`` what it raised, if it did.
        """
        self._ended = True
        failed = status not in (0, None)
        self._status = (status if isinstance(status, int) else 1) if failed else 0
        session = self.session
        if session.observer is not None:
            session.observer.running = False
        if self.place is None:
            return session.end()
        process, count = self.place
        written = session.end(quiet=process > 0 or self.record is not None)
        if failed:
            part = f"; its part of the record is {session.path}" if self.record and written else ""
            session.print([f"process {process} of {count} failed{part}"])
        if self._watch is not None:
            self._watch.finish(_error_text(status, error) if failed else "")
        return written

    def _at_exit(self) -> None:
        if self._watch is not None:
            self._watch.stop()
        self._merge()

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
            whole = read_whole(self.record) if taped else merge_parts(self.record, running=True)
        except (OSError, CaptureError) as error:
            self.session.print([f"the parts of the record could not be merged: {error}"])
            return
        if not self.session.options.quiet:
            from shardlift.recording.summary import summarise

            self.session.print(summarise(whole, self.record))


def _error_text(status: Any, error: BaseException | None) -> str:
    if error is None:
        return f"exit status {status}" if isinstance(status, int) else str(status)
    first_line = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {first_line}"


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
