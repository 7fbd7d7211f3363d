"""Is a job stuck that somebody else started? The processes find out among themselves.

Each one looks at itself. When it has been idle for a while, or has come to the end of its program,
it leaves a note with JAX's coordination service: what it waits for, or the error it ended with.
When there is a note of every process, process 0 says what is wrong.

A process that holds Python's lock for ever leaves no note, and then nothing is said.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import jax

from shardlift import _compat
from shardlift.launch.cpu import own_cpu_seconds
from shardlift.launch.diagnosis import Cause, Diagnosis, ProcessState, compare_states
from shardlift.launch.snapshot import take_snapshot
from shardlift.launch.stacks import Answer
from shardlift.launch.stuck import Sample, StuckClock
from shardlift.launch.waits import Wait, find_wait

__all__ = ["JobWatch"]

_IDLE, _NOTES, _END = "shardlift/idle", "shardlift/note", "shardlift/end"
_BUSY, _AT_END = "", "end"
_ANSWER = 10_000  # milliseconds for one note
_STOP = 5.0  # seconds that the thread has to end

Report = Callable[[Diagnosis, bool], None]  # the second: is the job ended because of that?


class JobWatch:
    """The watch of one process."""

    def __init__(
        self,
        client: _compat.Coordination,
        place: tuple[int, int],
        after: float,
        end: bool,
        report: Report,
        leave: Callable[[], None],
    ) -> None:
        """Nothing is watched yet.

        Args:
            client: of the coordination service.
            place: the number of this process, and of all.
            after: seconds without CPU use after which a process counts as idle.
            end: end the job when it is stuck; if a process has failed, it is ended anyway.
            report: is called in process 0.
            leave: ends this process.
        """
        self._client, (self._process, self._count) = client, place
        self._end, self._report, self._leave = end, report, leave
        self._clock = StuckClock(after)
        self._stopped = threading.Event()
        self._mark = _BUSY  # what the others know of this process
        self._seen: dict[str, str] = {}  # the marks that process 0 saw last
        self._reported = False
        self._posting = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True, name="shardlift-watch")

    def start(self) -> None:
        """Watch from now on."""
        self._thread.start()

    def finish(self, error: str) -> None:
        """The program has ended, with ``error`` if that is not empty."""
        with contextlib.suppress(jax.errors.JaxRuntimeError):  # the program has left the job
            self._post(_AT_END, error)

    def is_ending(self) -> bool:
        """Is the job being ended, so that an error is only a consequence?"""
        try:
            return bool(self._client.key_value_dir_get(_END))
        except jax.errors.JaxRuntimeError:
            return False

    def stop(self) -> None:
        """To be called before Python ends: a thread that is in C++ then would abort the process."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(_STOP)

    def _run(self) -> None:
        try:
            while not self._stopped.wait(self._clock.interval):
                self._look()
        except jax.errors.JaxRuntimeError:  # the service is gone: the job ends
            return

    def _look(self) -> None:
        became_idle = self._clock.add(Sample(time.monotonic(), (own_cpu_seconds(),), 0))
        if became_idle and self._mark != _AT_END:
            self._post(f"{time.time():.3f}", "")
        elif self._mark not in (_BUSY, _AT_END) and not self._clock.quiet:
            self._retract()
        if self._mark == _BUSY:
            self._reported = False
        elif self._client.key_value_dir_get(_END):
            self._leave()
        elif self._process == 0 and self._clock.quiet >= self._clock.limit:
            self._report_if_stuck()

    def _post(self, mark: str, error: str) -> None:
        answer = None if mark == _AT_END else asdict(take_snapshot(finished=False))
        note = {"pid": os.getpid(), "host": platform.node(), "error": error, "answer": answer}
        with self._posting:  # the program may end while the thread looks at it
            if self._mark != _AT_END:
                self._set(f"{_NOTES}/{self._process}", json.dumps(note))
                self._set_mark(mark)

    def _retract(self) -> None:
        with self._posting:
            if self._mark != _AT_END:
                self._set_mark(_BUSY)

    def _set_mark(self, mark: str) -> None:
        self._mark = mark
        self._set(f"{_IDLE}/{self._process}", mark)

    def _set(self, key: str, value: str) -> None:
        self._client.key_value_set(key, value, allow_overwrite=True)

    def _report_if_stuck(self) -> None:
        marks = dict(self._client.key_value_dir_get(_IDLE))
        before, self._seen = self._seen, marks
        idle = len(marks) == self._count and all(marks.values())
        # Seen twice: a process that has just gone on may not have said so yet.
        if self._reported or not idle or marks != before:
            return
        if all(mark == _AT_END for mark in marks.values()):
            return  # they are about to end
        self._reported = True
        diagnosis = compare_states(self._clock.quiet, list(map(self._state, range(self._count))))
        ended = self._end or diagnosis.cause is Cause.SOME_FAILED
        self._report(diagnosis, ended)
        if ended:
            self._set(f"{_END}/now", "1")
            time.sleep(3 * self._clock.interval)  # so long the others need to hear of it
            self._leave()

    def _state(self, process: int) -> ProcessState:
        note = json.loads(self._client.blocking_key_value_get(f"{_NOTES}/{process}", _ANSWER))
        return read_note(process, note)


def read_note(process: int, note: dict[str, Any]) -> ProcessState:
    """What a process left with the coordination service, as a record."""
    answer = None if note["answer"] is None else Answer.from_json(note["answer"])
    wait = find_wait(answer)
    if answer is None:
        wait = Wait.FAILED if note["error"] else Wait.END
    return ProcessState(process, note["pid"], wait, answer, note["host"], note["error"])
