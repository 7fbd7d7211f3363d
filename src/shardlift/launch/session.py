"""Running a program: what is restored in it, what is recorded of it, what is printed at its end."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import random
import shlex
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from shardlift._import_hook import AfterImport
from shardlift._legacy import Session, Uses
from shardlift._legacy.names import CHANGED, RANDOM_KEYS
from shardlift.capture.parts import part_path
from shardlift.launch.program import Program
from shardlift.recording.summary import list_counts
from shardlift.recording.tape.children import Children
from shardlift.recording.tape.options import TapeOptions
from shardlift.source.model import Version

if TYPE_CHECKING:
    from shardlift.recording.recorder import Recorder
    from shardlift.recording.tape.tape import Tape

_OLD_RANDOM_NUMBERS = (
    "random numbers are those of JAX before 0.5, as when the program was written; "
    "--written-for 0.5 draws those of today"
)
# Seconds until the record is written for the first time, and at most between two times; and how
# many times longer it is not written than it takes to write it.
_FIRST, _LONGEST, _SHARE = 1.0, 60.0, 20


@dataclass(frozen=True)
class RunOptions:
    """How a program is run.

    Args:
      patch: restores what JAX removed.
      written_for: the JAX whose meanings of changed names are restored; None: today's.
      record: the file for what is recorded; None records nothing.
      quiet: prints nothing at the end.
      facts: records times, placements and reads.
      tape: records the arrays of every call.
      seed: of ``random`` and ``numpy.random``, before the program starts.
      reference: the capture of another run, with which this one is compared.
    """

    patch: bool = True
    record: str | None = None
    written_for: Version | None = None
    quiet: bool = False
    facts: bool = True
    tape: TapeOptions | None = None
    seed: int | None = None
    reference: str | None = None

    def of_process(self, process: int) -> RunOptions:
        """The same in one process of many: the first one prints.

        Each records to a file of its own, and the launcher tells what these make together.
        """
        if self.record is not None:
            reference = self.reference and part_path(self.reference, process)
            record = part_path(self.record, process)
            return replace(self, record=record, quiet=True, reference=reference)
        return replace(self, quiet=self.quiet or process > 0)


def to_json(program: Program, options: RunOptions, **more: Any) -> str:
    """What a process is told that runs a program: the argument of its module."""
    return json.dumps({"program": asdict(program), "options": asdict(options), **more})


def from_json(argument: str) -> tuple[Program, RunOptions, dict[str, Any]]:
    """The program, the options, and what more a process was told."""
    told = json.loads(argument)
    program, options = told.pop("program"), told.pop("options")
    options["tape"] = options["tape"] and TapeOptions(**options["tape"])
    options["written_for"] = options["written_for"] and tuple(options["written_for"])
    return Program(**{**program, "args": tuple(program["args"])}), RunOptions(**options), told


class RunSession:
    """The time in which a program is observed, from now on until ``end``.

    What is restored stays until the process ends: threads and exit handlers come after it.
    """

    def __init__(self, options: RunOptions, program: Program) -> None:
        """Begins at once."""
        self.options, self.program = options, program
        self.process = os.getpid()
        self.path = options.record  # in a job of many processes, the path of this part
        self.joined = False  # is this process known to be one of a job?
        self.observer: Recorder | None = None
        self.error: BaseException | None = None  # that ended the program
        self._writing = threading.Lock()
        self._ended = threading.Event()
        if options.record is not None and options.tape is not None:
            self._children = Children(options.record)
            self._children.watch()
            for stream in filter(None, (sys.stdout, sys.stderr)):
                leave_out_traced_prints(stream)
        self.session = Session(
            patch=options.patch, written_for=options.written_for, prepare=self._prepare
        )
        self.uses = self.session.enter()
        if options.seed is not None:
            seed_random_numbers(options.seed)

    def _prepare(self) -> Recorder | None:
        if self.options.record is not None:
            self.observer = self._recorder()
            self.observer.running = True
        if self.options.seed is not None:
            # The import of jax draws from it, not as much in every version.
            sys.modules["numpy.random"].seed(self.options.seed)
        return self.observer

    def _recorder(self) -> Recorder:
        from shardlift.recording.process import job_name
        from shardlift.recording.recorder import Recorder

        job_name()  # a process of `--processes` has joined its job by now
        options, program = self.options, self.program
        command = [*(["-m"] if program.module else []), program.target, *program.args]
        recorder = Recorder(
            command=command, patched=options.patch, facts=options.facts, tape=self._tape()
        )
        if options.tape is not None:
            observe_more(recorder)
        return recorder

    def _tape(self) -> Tape | None:
        if self.options.tape is None:
            return None
        from shardlift.capture.files import read
        from shardlift.recording.tape.tape import ReferenceRun, Tape

        self._children.leave_out(sys.modules["jax"])
        path = self.options.reference
        reference = None if path is None else ReferenceRun(read(path))
        return Tape(self.options.tape, reference, self._children)

    def note_devices(self) -> None:
        """Note the devices while there are some; to be called before exit handlers are."""
        if self.observer is not None and os.getpid() == self.process:
            self.observer.note_devices()

    def end(self, *, quiet: bool = False) -> bool:
        """Write the record and print what was used; in a child that the program forked, nothing.

        False: there is a record, and it could not be written.
        """
        if os.getpid() != self.process:
            return True
        self._ended.set()
        if self.observer is not None:
            self.observer.running = False
        if not self.write():
            return False
        if not (quiet or self.options.quiet):
            self.print(self.lines())
        return True

    def keep_writing(self) -> None:
        """Write the record from time to time: a process that is killed leaves what it had seen."""
        if self.options.record is not None:
            name = "shardlift-record"
            threading.Thread(target=self._write_repeatedly, daemon=True, name=name).start()

    def _write_repeatedly(self) -> None:
        pause = _FIRST
        while not self._ended.wait(pause):
            # Before its first call, a program may still join a job, where its file is another one.
            if self.observer is None or not (self.joined or self.observer.has_calls()):
                continue
            began = time.monotonic()
            with contextlib.suppress(Exception):  # the program went on meanwhile: next time
                self.write(quiet=True)
            pause = max(min(2 * pause, _LONGEST), _SHARE * (time.monotonic() - began))

    def write(self, *, quiet: bool = False, patience: float = 60) -> bool:
        """Write what was recorded so far; False, with a line that says why, if that fails.

        If another thread is writing, wait up to ``patience`` seconds: what is newer comes last.
        """
        path = self.path
        if self.observer is None or path is None or os.getpid() != self.process:
            return True
        alone = self._writing.acquire(timeout=patience)
        try:
            self.observer.write(path)
        except OSError as error:
            why = error.strerror or str(error)
            if not quiet:
                self.print([f"the record {path} could not be written: {why}"])
            return False
        finally:
            if alone:
                self._writing.release()
        return True

    def print(self, lines: Iterable[str]) -> None:
        """Print lines to stderr, each with the name of this program."""
        with contextlib.suppress(OSError, ValueError):  # stderr is closed
            for line in lines:
                print(f"shardlift: {line}", file=sys.stderr)

    def lines(self) -> list[str]:
        """The lines that are printed at the end."""
        return [*self.advice(), *self._summary()]

    def advice(self) -> list[str]:
        """What to do about the error that ended the program, if a removed name caused it."""
        if self.error is None:
            return []
        from shardlift.launch.missing_name import find_missing_name

        missing = find_missing_name(self.error)
        return [] if missing is None else list(missing.lines(patch=self.options.patch))

    def _summary(self) -> list[str]:
        jax: Any = sys.modules.get("jax")
        if jax is None:
            recorded = self.options.record is not None
            return ["nothing was recorded: the program did not import jax"] if recorded else []
        random = [_OLD_RANDOM_NUMBERS] if self.uses.keys() & {*RANDOM_KEYS} else []
        if self.observer is not None:
            return [*random, *self.observer.summary().splitlines()]
        if not self.options.patch or (self.error is not None and not self.uses):
            return []
        return [*random, *uses_text(self.uses, jax.__version__, self.program)]


def observe_more(recorder: Any) -> None:
    """Observe, besides pmap and jit, the other ways to run a function on devices."""
    import jax
    from jax.experimental import pjit

    import shardlift

    for owner, name, hook in (
        (shardlift, "pmap", recorder.pmap),
        (jax, "shard_map", recorder.shard_map),
        (pjit, "pjit", recorder.jit),
    ):
        setattr(owner, name, hook(getattr(owner, name)))


def seed_random_numbers(seed: int) -> None:
    """Seed ``random`` now, and ``numpy.random`` when it is imported."""
    random.seed(seed)
    if "numpy.random" in sys.modules:
        _seed_numpy(sys.modules["numpy.random"], seed)
    else:
        AfterImport("numpy.random", lambda module: _seed_numpy(module, seed)).install()


def _seed_numpy(module: Any, seed: int) -> None:
    """Seed the global generator, and those that ``default_rng`` makes without a seed."""
    module.seed(seed)
    stock, first, numbers = module.default_rng, seed, itertools.count()

    @functools.wraps(stock)
    def default_rng(seed: Any = None) -> Any:
        return stock([first, next(numbers)] if seed is None else seed)

    module.default_rng = default_rng


def uses_text(uses: Uses, version: str, program: Program) -> list[str]:
    """What a run without a record prints at its end.

    >>> uses_text(Uses({"jax.pmap": 2, "jax.tree_map": 5}), "0.12.0", Program("my code/train.py"))
    ... # doctest: +NORMALIZE_WHITESPACE
    ['restored for this run, which JAX 0.12.0 no longer has: jax.tree_map (5); jax.pmap (2) ran
    as before 0.8',
    "next: shardlift check 'my code'"]
    """
    if not uses:
        return [f"no pmap, and nothing that JAX {version} no longer has, was used"]
    removed = {name: uses[name] for name in uses if name != "jax.pmap" and name not in CHANGED}
    changed = {name: uses[name] for name in uses if name in CHANGED and name not in RANDOM_KEYS}
    parts = [
        removed
        and f"restored for this run, which JAX {version} no longer has: {list_counts(removed)}",
        changed and f"as before JAX changed their meaning: {list_counts(changed)}",
        "jax.pmap" in uses and f"jax.pmap ({uses['jax.pmap']}) ran as before 0.8",
    ]
    # The folder: a script is often only a launcher.
    folder = "" if program.module else os.path.dirname(program.target)
    where = shlex.quote(folder or ".")
    lines = ["; ".join(part for part in parts if part)] if any(parts) else []
    return [*lines, f"next: shardlift check {where}"]


def leave_out_traced_prints(stream: Any) -> None:
    """From now on, drop what is written to a stream of text while JAX traces a function.

    That is no output of the program: how often a function is traced depends on who maps it and on
    what is recorded.
    """
    write = stream.write

    def write_unless_tracing(text: str) -> int:
        # It is imported with JAX; before that, nothing is traced.
        tracing = getattr(sys.modules.get("shardlift._compat"), "tracing", None)
        return len(text) if tracing is not None and tracing() else int(write(text))

    stream.write = write_unless_tracing
