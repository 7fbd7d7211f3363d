"""A job of many local processes under one coordinator: start, watch, end.

The processes talk over the loopback address, with gloo between their CPU devices. Each is the
leader of its own session, so that what it started ends with it, and holds a socket to the
launcher, so that it ends when the launcher does.
"""

import json
import operator
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import IO, Any

from shardlift.launch.child import DUMP_SIGNAL, Place
from shardlift.launch.program import Program, virtual_devices
from shardlift.launch.session import RunOptions, to_json
from shardlift.launch.stuck import (
    Activity,
    StuckClock,
    StuckJob,
    StuckProcess,
    WhenStuck,
    cpu_seconds,
    parse_dump,
)

Emit = Callable[[int, str, str], None]  # process, "stdout" or "stderr", a line
_TICK = 0.05  # how often the processes are looked at, in seconds
_SETTLE = 0.3  # how long after the first failure others may tell of an earlier one
_NOTICED = 0.2  # how long before the launcher, at most, others may notice that a process is gone
_DUMP = 1.0  # how long processes have to write their stacks, in seconds
_WRITING = 20.0  # how long a process that is to end has to write its record
_STOPS = (signal.SIGINT, signal.SIGTERM)
STUCK_STATUS = 79  # after the last status of sysexits.h, before the statuses of signals


class Lines:
    r"""Calls ``take`` with each line; a carriage return ends one too, as progress bars use it.

    >>> seen = []
    >>> lines = Lines(seen.append)
    >>> for chunk in (b"one\ntw", b"o\r50%\r", b"end", b""):
    ...     lines.feed(chunk)
    >>> seen
    ['one', 'two', '50%', 'end']
    """

    def __init__(self, take: Callable[[str], None]) -> None:
        """``take`` is called with each line, without its end."""
        self.take = take
        self.rest = b""

    def feed(self, chunk: bytes) -> None:
        """Take what was read; nothing means the end of the stream."""
        *lines, self.rest = re.split(rb"\r\n|\n|\r(?!$)", self.rest + chunk)
        if not chunk and self.rest:
            lines, self.rest = [*lines, self.rest.rstrip(b"\r")], b""
        for line in lines:
            self.take(line.decode(errors="replace"))


@dataclass(frozen=True)
class Failure:
    """The root cause of a failed job."""

    process: int
    status: int
    traceback: str
    waiting_for: tuple[int, ...] = ()  # processes that never came to join the job
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """How a job ended: the exit status of the launcher, and why, unless it is 0."""

    status: int
    failure: Failure | None = None
    interrupted: bool = False
    stuck: StuckJob | None = None  # it was ended because of that


@dataclass
class _Worker:
    popen: subprocess.Popen[bytes]
    link: socket.socket
    stage: str = "starting"  # then "joining", then "joined"
    ready: bool = False  # has it begun to listen?
    gone: float | None = None  # since when, if it is
    writing: bool = False  # is it writing its record?
    unwritten: bool = False  # could it not?
    dump: list[str] = field(default_factory=list)
    failures: list[tuple[float, Failure]] = field(default_factory=list)

    def answers(self) -> bool:
        """Whether it listens; a program that has replaced its process does not."""
        return self.ready and self.link.fileno() >= 0 and self.popen.poll() is None


@dataclass
class Job:
    """A program that runs in several local processes.

    Args:
        program: what each process runs.
        processes: how many.
        devices: virtual CPU devices of each; None leaves the choice of devices to JAX.
        emit: is called with each line that a process prints.
        options: what is restored in each process, and recorded of it; nothing by default.
        environ: the environment of the processes; by default, this process's own.
        when_stuck: what to do when no process uses the CPU or prints; nothing by default.
        grace: seconds that processes have to end when they are told to, before they are killed.
        start_timeout: seconds in which all processes must have imported JAX.
    """

    program: Program
    processes: int
    devices: int | None
    emit: Emit
    options: RunOptions = field(default_factory=lambda: RunOptions(patch=False))
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    when_stuck: WhenStuck | None = None
    grace: float = 3.0
    start_timeout: int = 300

    def __post_init__(self) -> None:
        """Nothing is started yet."""
        self.workers: list[_Worker] = []
        self.selector = selectors.DefaultSelector()
        self.heard = 0  # how often a process has said something
        self._clock = StuckClock(self.when_stuck.after) if self.when_stuck else None
        self._next_look = 0.0

    def run(self) -> Outcome:
        """Start the processes and wait for them.

        Returns:
            Status 0, or the status of the first process that failed: the others are ended then; 2
            if a record could not be written. SIGINT and SIGTERM end all processes.
        """
        stops: list[int] = []
        before = {s: signal.signal(s, lambda n, _: stops.append(n)) for s in _STOPS}
        try:
            self.start()
            return self.watch(stops)
        finally:
            self.kill()
            self.close()
            for number, handler in before.items():
                signal.signal(number, handler)

    def start(self) -> None:
        """Start all processes."""
        coordinator = f"127.0.0.1:{free_port()}"
        for process in range(self.processes):
            self._start(process, coordinator)

    def _start(self, process: int, coordinator: str) -> None:
        ours, theirs = socket.socketpair()
        dump, their_dump = socket.socketpair()
        fds = [theirs.fileno(), their_dump.fileno()]
        place = Place(process, self.processes, coordinator, self.start_timeout, *fds)
        told = to_json(self.program, self.options, place=asdict(place))
        with theirs, their_dump:
            popen = subprocess.Popen(
                [sys.executable, "-m", "shardlift.launch", told],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment(),
                pass_fds=fds,
                start_new_session=True,
            )
        worker = _Worker(popen, ours)
        self.workers.append(worker)
        self._listen(ours, Lines(partial(self._told, process)))
        self._listen(dump, Lines(worker.dump.append))
        for name, pipe in (("stdout", popen.stdout), ("stderr", popen.stderr)):
            assert pipe is not None
            self._listen(pipe, Lines(partial(self.emit, process, name)))

    def _environment(self) -> dict[str, str]:
        env = dict(self.environ)
        env.setdefault("JAX_CPU_COLLECTIVES_IMPLEMENTATION", "gloo")
        if self.devices is not None:
            virtual_devices(self.devices, env)
        return env

    def _listen(self, source: socket.socket | IO[bytes], lines: Lines) -> None:
        self.selector.register(source, selectors.EVENT_READ, (source, lines))

    def watch(self, stops: list[int]) -> Outcome:
        """Pass output on until all processes ended, one failed, or a signal came."""
        while not stops and not self._failures() and self._alive():
            self._pump()
            if self.when_stuck is None or not self._is_stuck():
                continue
            stuck = self._ask_for_stacks()
            if self.when_stuck.end:
                self.end(signal.SIGTERM, stops)
                return Outcome(STUCK_STATUS, stuck=stuck)
            self.when_stuck.report(stuck)
        if stops:
            self.end(stops[0], stops)
            return Outcome(128 + stops[0], interrupted=True)
        if not self._failures():
            self._drain()
        if failure := self._root_cause():
            self.end(signal.SIGTERM, stops)
            status = failure.status
            return Outcome(status if status >= 0 else 128 - status, failure)
        return Outcome(2 if any(worker.unwritten for worker in self.workers) else 0)

    def _is_stuck(self) -> bool:
        """Whether the job has just become stuck."""
        now = time.monotonic()
        if self._clock is None or now < self._next_look:
            return False
        self._next_look = now + self._clock.interval
        cpu = cpu_seconds([worker.popen.pid for worker in self.workers])
        return cpu is not None and self._clock.add(Activity(now, cpu, self.heard))

    def _ask_for_stacks(self) -> StuckJob:
        """Each process writes its stacks when a signal comes, also while it is inside XLA."""
        seconds = self._clock.quiet if self._clock else 0.0
        for worker in self.workers:
            worker.dump.clear()
            if worker.answers():
                worker.popen.send_signal(DUMP_SIGNAL)
        deadline = time.monotonic() + _DUMP
        while time.monotonic() < deadline:
            self._pump()
        states = tuple(
            StuckProcess(
                process,
                worker.popen.pid,
                parse_dump(worker.dump, self.program.package),
                ended=worker.popen.poll() is not None,
            )
            for process, worker in enumerate(self.workers)
        )
        return StuckJob(seconds, self.processes, states)

    def end(self, number: int, stops: list[int]) -> None:
        """Tell all processes to end; kill them after the grace or at a second signal.

        Those that are writing their records then have longer.
        """
        told = len(stops)
        for worker in self.workers:
            if worker.answers():
                with suppress(OSError):
                    worker.link.send(b"\0")  # it writes its record
            signal_group(worker.popen, number)
        deadline = time.monotonic() + self.grace
        while self._alive() and len(stops) == told:
            late = time.monotonic() - deadline
            writes = any(worker.writing and worker.popen.poll() is None for worker in self.workers)
            if late > (_WRITING if writes else 0):
                break
            self._pump()
        self.kill()
        self._drain()

    def kill(self) -> None:
        """Leave nothing behind: neither the processes nor what they started."""
        for worker in self.workers:
            signal_group(worker.popen, signal.SIGKILL)
            worker.popen.wait()

    def close(self) -> None:
        """Let go of the pipes that are still open."""
        for key in list(self.selector.get_map().values()):
            key.data[0].close()
        self.selector.close()

    def _alive(self) -> bool:
        return any(worker.popen.poll() is None for worker in self.workers)

    def _pump(self) -> bool:
        """Read what has come; False when nothing had."""
        events = self.selector.select(_TICK)
        for key, _ in events:
            source, lines = key.data
            try:
                chunk = os.read(key.fd, 65536)
            except ConnectionResetError:  # the process ended before it had read what it was told
                chunk = b""
            self.heard += 1
            lines.feed(chunk)
            if not chunk:
                for worker in self.workers:
                    if worker.link is source:
                        worker.gone = time.time()
                self.selector.unregister(source)
                source.close()
        return bool(events)

    def _drain(self) -> None:
        deadline = time.monotonic() + 1.0
        while self.selector.get_map() and time.monotonic() < deadline and self._pump():
            pass

    def _told(self, process: int, line: str) -> None:
        said = json.loads(line)
        worker = self.workers[process]
        if "failed" in said:
            advice = tuple(said.get("advice", ()))
            failure = Failure(process, said["failed"], said["traceback"], advice=advice)
            worker.failures.append((said["at"], failure))
        worker.ready = worker.ready or "ready" in said
        worker.writing = said.get("writing", worker.writing)
        worker.unwritten = said.get("unwritten", worker.unwritten)
        worker.stage = said.get("stage", worker.stage)

    def _failures(self) -> list[tuple[float, Failure]]:
        """Every failure so far: what processes told, and those that ended without a word."""
        silent = [
            ((worker.gone or time.time()) - _NOTICED, Failure(n, worker.popen.returncode, ""))
            for n, worker in enumerate(self.workers)
            if worker.popen.poll() and not worker.failures
        ]
        return [failure for worker in self.workers for failure in worker.failures] + silent

    def _root_cause(self) -> Failure | None:
        deadline = time.monotonic() + _SETTLE
        while self._failures() and time.monotonic() < deadline:
            self._pump()
        if not (failures := self._failures()):
            return None
        # A killed process is the cause for sure, but JAX aborts processes when another one is gone.
        killed = [(at, f) for at, f in failures if f.status < 0 and f.status != -signal.SIGABRT]
        first = min(killed or failures, key=operator.itemgetter(0))[1]
        if self.workers[first.process].stage != "joining":
            return first
        late = tuple(n for n, worker in enumerate(self.workers) if worker.stage == "starting")
        return replace(first, waiting_for=late)


def free_port() -> int:
    """A port of the loopback address that nobody listens on."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def signal_group(leader: subprocess.Popen[Any], number: int) -> None:
    """Send a signal to all that is left of a group.

    The id of a leader that was waited for may belong to another process by now. The kernel does
    not give it away as long as the group has a member; if it is in use, the group is gone.
    """
    with suppress(ProcessLookupError, PermissionError):
        if leader.poll() is None or not _in_use(leader.pid):
            os.killpg(leader.pid, number)


def _in_use(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
