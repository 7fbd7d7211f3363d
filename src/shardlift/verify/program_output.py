"""What a program prints."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import IO

from shardlift.launch.control import DUMP_SIGNAL
from shardlift.launch.stacks import parse_dump
from shardlift.launch.stuck import Activity, StuckClock, StuckJob, StuckProcess, cpu_seconds
from shardlift.report.numbers import count


@dataclass(frozen=True)
class ProgramOutput:
    """The text of each stream."""

    streams: Mapping[str, str] = field(default_factory=dict)

    @property
    def end(self) -> str:
        """The last lines on standard error, or else on standard output."""
        error, out = self.streams.get("stderr", ""), self.streams.get("stdout", "")
        return "\n".join((error.rstrip() or out.rstrip()).splitlines()[-12:])

    @property
    def extent(self) -> str:
        """How much there is."""
        lines = {name: text.count("\n") for name, text in self.streams.items()}
        parts = [f"{count(number, 'line')} of {name}" for name, number in lines.items()]
        return ", ".join(parts)


@dataclass(frozen=True)
class StuckWatch:
    """When a program is taken to be stuck, and the file to which it then writes its stacks."""

    after: float  # seconds without CPU use and output
    stacks: IO[bytes]
    package: str  # of the program


def run_and_read(
    command: Sequence[str], env: Mapping[str, str], echo: bool, watch: StuckWatch | None = None
) -> tuple[int, ProgramOutput, StuckJob | None]:
    """Run a command; ``echo`` copies what it prints to standard error while it runs.

    It has no standard input: nobody would see what it asks for. Returns when the command ends,
    even if a process that it started lives on, or when it was stuck and was ended.
    """
    fds = [watch.stacks.fileno()] if watch else []
    with ExitStack() as stack:
        out, err = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        with subprocess.Popen(
            command, env=dict(env), stdin=subprocess.DEVNULL, stdout=out, stderr=err, pass_fds=fds
        ) as process:
            try:
                stuck = _wait(process, (out, err), echo, watch)
            finally:
                process.kill()
        texts = [_read(file, 0).decode(errors="replace") for file in (out, err)]
    return process.returncode, ProgramOutput({"stdout": texts[0], "stderr": texts[1]}), stuck


def _wait(
    process: subprocess.Popen[bytes],
    streams: Sequence[IO[bytes]],
    echo: bool,
    watch: StuckWatch | None,
) -> StuckJob | None:
    clock = StuckClock(watch.after) if watch else None
    shown, next_look = [0] * len(streams), 0.0
    while True:
        try:
            process.wait(0.1)
            ended = True
        except subprocess.TimeoutExpired:
            ended = False
        for k, file in enumerate(streams if echo else ()):
            new = _read(file, shown[k])
            shown[k] += len(new)
            print(new.decode(errors="replace"), end="", file=sys.stderr, flush=True)
        if ended:
            return None
        now = time.monotonic()
        if watch is None or clock is None or now < next_look:
            continue
        next_look = now + clock.interval
        cpu, printed = cpu_seconds([process.pid]), sum(map(_size, streams))
        if cpu is not None and clock.add(Activity(now, cpu, printed)):
            return _ask_for_stacks(process, clock.quiet, watch)


def _ask_for_stacks(
    process: subprocess.Popen[bytes], seconds: float, watch: StuckWatch
) -> StuckJob:
    process.send_signal(DUMP_SIGNAL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
    lines = _read(watch.stacks, 0).decode(errors="replace").splitlines()
    state = StuckProcess(0, process.pid, parse_dump(lines, watch.package))
    return StuckJob(seconds, 1, (state,))


def _size(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size


def _read(file: IO[bytes], start: int) -> bytes:
    """The content from ``start``; the program's own position in the file stays."""
    return os.pread(file.fileno(), _size(file) - start, start)
