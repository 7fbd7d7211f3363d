"""Around a program: what is restored while it runs, what is recorded of it, what is said."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

from shardlift._legacy import Session, Uses
from shardlift._legacy.tracebacks import without_our_frames
from shardlift.launch.program import Program

__all__ = ["Watch", "Watching", "merge_records"]

_FOLDER = os.path.dirname(os.path.dirname(__file__))
_NAMES = 6  # how many names are listed at the end


@dataclass(frozen=True)
class Watch:
    """What is wanted: ``patch`` restores what JAX removed, ``record`` names a file."""

    patch: bool = True
    record: str | None = None
    quiet: bool = False
    record_inputs: int | None = None  # bytes of inputs, and of outputs, whose values are kept
    session: bool = True  # False: the program begins one of its own

    def of_process(self, process: int) -> Watch:
        """The same in one process of many: the first one talks.

        Each records to a file of its own, and the launcher talks about what these make together.
        """
        if self.record is not None:
            return replace(self, record=part_of(self.record, process), quiet=True)
        return replace(self, quiet=self.quiet or process > 0)

    def begin(self, program: Program) -> Watching:
        """From now on, until ``end``."""
        return Watching(self, program)


class Watching:
    """The time in which a program is watched.

    What is restored stays until the process ends: threads and exit handlers come after it.
    """

    def __init__(self, watch: Watch, program: Program) -> None:
        """Begins at once."""
        self.watch, self.program = watch, program
        self.process = os.getpid()
        self.recorder: Any = None
        self.session = Session(patch=watch.patch, prepare=self._prepare)
        self.uses = self.session.enter() if watch.session else self.session.uses
        if watch.record is not None:
            self._write_when_terminated()
        self._filter_threads()

    def _prepare(self) -> Any:
        from shardlift import _compat

        _compat.leave_out_of_tracebacks(_FOLDER)
        if self.watch.record is None:
            return None
        from shardlift.recording.recorder import Recorder

        command = [*(["-m"] if self.program.module else []), self.program.target]
        self.recorder = Recorder(command=[*command, *self.program.args], patched=self.watch.patch)
        if self.watch.record_inputs is not None:
            from shardlift.verify.tape.both import Both

            self.recorder = Both(self.recorder, self.watch.record_inputs)
        return self.recorder

    def end(self, *, quiet: bool = False) -> bool:
        """Write the record and say what was used; in a child that the program forked, nothing.

        False: there is a record, and it could not be written.
        """
        if os.getpid() != self.process:
            return True
        if not self.write():
            return False
        if not (quiet or self.watch.quiet):
            self._say(self.lines())
        return True

    def write(self) -> bool:
        """Write what was recorded so far; False, and a line that says why, if it cannot be."""
        if self.recorder is None or os.getpid() != self.process:
            return True
        try:
            self.recorder.write(self.watch.record)
        except OSError as error:
            why = error.strerror or str(error)
            self._say([f"the record {self.watch.record} could not be written: {why}"])
            return False
        return True

    def _say(self, lines: Iterable[str]) -> None:
        with contextlib.suppress(OSError, ValueError):  # stderr is closed
            for line in lines:
                print(f"shardlift: {line}", file=sys.stderr)

    def lines(self) -> list[str]:
        """What there is to say at the end."""
        jax: Any = sys.modules.get("jax")
        if jax is None:
            recorded = self.watch.record is not None
            return ["nothing was recorded: the program did not import jax"] if recorded else []
        if self.recorder is not None:
            return self.recorder.summary().splitlines()
        if not self.watch.patch:
            return []
        return told(self.uses, jax.__version__, self.program)

    def _write_when_terminated(self) -> None:
        """SIGTERM ends the program as ever, but the record is written first."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return

        def terminated(number: int, _: FrameType | None) -> None:
            # In a thread, with a time-out: what was interrupted may hold a lock.
            writer = threading.Thread(target=self.write, daemon=True)
            writer.start()
            writer.join(5)
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

        signal.signal(signal.SIGTERM, terminated)

    def _filter_threads(self) -> None:
        """Errors of threads are shown without our frames too."""
        stock = threading.excepthook

        def excepthook(args: Any) -> None:
            without_our_frames(args.exc_value)
            frames = None if args.exc_value is None else args.exc_value.__traceback__
            stock(threading.ExceptHookArgs((args.exc_type, args.exc_value, frames, args.thread)))

        threading.excepthook = excepthook


def told(uses: Uses, version: str, program: Program) -> list[str]:
    """What a run without a record says at its end.

    >>> told(Uses({"jax.pmap": 2, "jax.tree_map": 5}), "0.12.0", Program("my code/train.py"))
    ... # doctest: +NORMALIZE_WHITESPACE
    ['restored for this run, which JAX 0.12.0 no longer has: jax.tree_map (5); jax.pmap (2) ran
    as before 0.8',
    "next: shardlift check 'my code'"]
    """
    if not uses:
        return [f"no pmap, and nothing that JAX {version} no longer has, was used"]
    rest = [(name, count) for name, count in uses.most_common() if name != "jax.pmap"]
    listed = ", ".join(f"{name} ({count})" for name, count in rest[:_NAMES])
    more = f" and {len(rest) - _NAMES} more" if len(rest) > _NAMES else ""
    said = f"restored for this run, which JAX {version} no longer has: {listed}{more}"
    pmaps = f"jax.pmap ({uses['jax.pmap']}) ran as before 0.8" if "jax.pmap" in uses else ""
    # The folder: a script is often only the launcher of what is beside it.
    folder = "" if program.module else os.path.dirname(program.target)
    where = shlex.quote(folder or ".")
    both = "; ".join(part for part in (said if rest else "", pmaps) if part)
    return [both, f"next: shardlift check {where}"]


def part_of(record: str, process: int) -> str:
    """The file of one process of many."""
    return f"{record}.{process}"


def merge_records(record: str, processes: int) -> Sequence[str]:
    """Make one record of those of all processes; returns the parts that there were."""
    from shardlift.capture.files import read, write
    from shardlift.capture.merge import merge

    parts = [part_of(record, k) for k in range(processes)]
    found = [part for part in parts if os.path.exists(part)]
    if found:
        write(merge([read(part) for part in found]), record)
        for part in found:
            os.remove(part)
    return found
