"""Running two programs one after the other, recording their calls, and comparing them."""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import IO, NamedTuple

from shardlift._legacy.names import RANDOM_KEYS
from shardlift.capture import array_archive
from shardlift.capture.parts import find_parts, part_path, read_processes
from shardlift.capture.schema import Capture
from shardlift.launch.job import Job
from shardlift.launch.program import Program
from shardlift.launch.session import RunOptions, to_json
from shardlift.launch.stuck import StuckJob, WhenStuck
from shardlift.recording.tape.options import KEEP, KEPT_CALLS, TAPPED, TapeOptions
from shardlift.verify.bisect import identity, unstable_sites
from shardlift.verify.child_environment import environment, is_made_deterministic
from shardlift.verify.compare.array_distance import Tolerance
from shardlift.verify.compare.captured_run import CapturedRun
from shardlift.verify.compare.judge import judge_processes, notes_on_jits
from shardlift.verify.compare.verdicts import ProgramVerdict, Side, Verdict

STUCK_AFTER = 60.0  # seconds without CPU use and output after which a job is ended
SEED = 0  # for random and numpy.random, unless the program sets its own
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_PYTHON = re.compile(r"python[0-9.]*(\.exe)?$")
DETERMINISTIC_NOTE = (
    "both programs ran with deterministic operations of the GPU (--xla_gpu_deterministic_ops), so "
    "that two runs of one program give the same numbers"
)
THREEFRY = "JAX_THREEFRY_PARTITIONABLE"
Tell = Callable[[str], None]
Streams = Mapping[str, str]  # what a program prints, by the name of the stream


class CannotRunError(Exception):
    """The target is neither a program nor a capture, or there is nothing to compare."""

    stuck: StuckJob | None = None  # the job that was ended because it was stuck


@dataclass(frozen=True)
class ComparisonOptions:
    """The options of a comparison."""

    tolerance: Tolerance
    devices: int | None = None  # per process
    processes: int = 1
    stuck_after: float = STUCK_AFTER  # 0 waits forever
    keep: int = KEEP
    tapped: int = TAPPED
    patch_after: bool = False
    verbose: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)  # additional variables of AFTER
    facts: bool = False  # records times, placements and proofs of BEFORE, too


@dataclass(frozen=True)
class RunSource:
    """One side of a comparison: a program to run, or a capture to read."""

    text: str
    program: Program | None  # None: the capture of an earlier run
    environ: Mapping[str, str] = field(default_factory=dict)  # variables that the command sets


def parse_target(text: str, args: Sequence[str] = ()) -> RunSource:
    """The program or the capture that an argument of the command line names.

    >>> parse_target("python3 -m pytest -q tests").program
    Program(target='pytest', args=('-q', 'tests'), module=True)
    >>> parse_target("-m pkg.train --lr 1", ["--steps", "3"]).program
    Program(target='pkg.train', args=('--lr', '1', '--steps', '3'), module=True)
    >>> parse_target("PYTHONPATH=old python -m pkg.train").environ
    {'PYTHONPATH': 'old'}
    """
    # If a file of JSON is no capture, reading it raises an error that says so.
    if text.endswith(".json") and (os.path.isfile(text) or find_parts(text)):
        return RunSource(text, None)
    if os.path.exists(text):
        return RunSource(text, Program(text, tuple(args)))
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise CannotRunError(f"{text!r} is not a command: {error}") from None
    environ: dict[str, str] = {}
    while words and (match := _ASSIGNED.fullmatch(words[0])):
        environ[match[1]] = match[2]
        del words[0]
    if words and _PYTHON.match(os.path.basename(words[0])):
        del words[0]
    return RunSource(text, _program(text, [*words, *args], len(words)), environ)


def _program(text: str, words: Sequence[str], given: int) -> Program:
    """The program of a command; the first ``given`` words are what the user named."""
    first, rest = words[0] if given else "", tuple(words[1:])
    if first == "-m" and given > 1:
        return Program(rest[0], rest[1:], module=True)
    if os.path.basename(first) in ("pytest", "py.test"):
        return Program("pytest", rest, module=True)
    if os.path.isfile(first):
        return Program(first, rest)
    if first.endswith((".py", ".ipynb", ".json")):
        raise CannotRunError(f"no such file: {first}")
    raise CannotRunError(
        f"{text!r} is neither a file, a module, a pytest command nor a capture. Give train.py, "
        '"-m pkg.train", "pytest tests/test_train.py" or a capture.json'
    )


# ---- running


def run_program(
    source: RunSource, options: RunOptions, settings: ComparisonOptions, env: Mapping[str, str]
) -> tuple[int, Streams, str]:
    """Run a program. Returns its exit status, its output and, if it failed, the end of that."""
    assert source.program is not None
    if settings.processes > 1:
        return _run_in_many(source, options, settings, env)
    argument = to_json(source.program, options)
    command = [sys.executable, "-m", "shardlift.verify.child", argument]
    status, streams = run_and_read(command, env, settings.verbose)
    lines = (streams["stderr"].rstrip() or streams["stdout"].rstrip()).splitlines()
    return status, streams, _end(lines) if status and not settings.verbose else ""


def run_and_read(command: Sequence[str], env: Mapping[str, str], echo: bool) -> tuple[int, Streams]:
    """Run a command; ``echo`` shows what it has printed on standard error when it has ended.

    It has no standard input: nobody would see what it asks for. Returns when the command ends,
    even if a process that it started lives on.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        done = subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, check=False
        )
        streams = {"stdout": _read_file(out), "stderr": _read_file(err)}
    if echo:
        print(*streams.values(), sep="", end="", file=sys.stderr, flush=True)
    return done.returncode, streams


def _read_file(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _end(lines: Sequence[str]) -> str:
    return "\n".join(lines[-12:])


def _run_in_many(
    source: RunSource, options: RunOptions, settings: ComparisonOptions, env: Mapping[str, str]
) -> tuple[int, Streams, str]:
    assert source.program is not None
    lines: list[str] = []
    streams: dict[str, list[str]] = {}

    def emit(process: int, stream: str, line: str) -> None:
        streams.setdefault(f"{stream} of process {process}", []).append(line)
        lines.append(f"[{process}] {line}")
        if settings.verbose:
            print(lines[-1], file=sys.stderr)

    after = settings.stuck_after  # it is ended then, because its output is not shown
    ends = WhenStuck(after, report=lambda _: None, end=True) if after else None
    done = Job(
        source.program,
        processes=settings.processes,
        devices=None,
        emit=emit,
        options=options,
        environ=env,
        when_stuck=ends,
    ).run()
    if done.interrupted:
        raise KeyboardInterrupt
    if done.stuck:
        error = CannotRunError(
            f"{source.text} was stuck and was ended: for {done.stuck.seconds:.0f} s none of its "
            f"{done.stuck.processes} processes had used the CPU or printed anything (--stuck-after)"
        )
        error.stuck = done.stuck
        raise error
    why = done.failure.traceback if done.failure else ""
    end = _end(why.rstrip().splitlines() or lines) if done.status else ""
    return done.status, {name: "\n".join(text) for name, text in streams.items()}, end


class Run(NamedTuple):
    """A program that was run, or a capture that was read."""

    side: Side
    parts: Mapping[int, CapturedRun]  # by process
    path: str  # the path of the capture; parts are beside it
    output: Streams = MappingProxyType({})

    @property
    def recorded(self) -> CapturedRun:
        """What was recorded in the first process."""
        return self.parts[min(self.parts)]

    @property
    def processes(self) -> int:
        """The number of processes, including those that were not recorded."""
        counts = [p.count for part in self.parts.values() for p in part.capture.processes]
        return max(counts, default=len(self.parts))


def compare(
    before: RunSource, after: RunSource, settings: ComparisonOptions, tell: Tell
) -> ProgramVerdict:
    """Run programs, read captures, and compare."""
    with tempfile.TemporaryDirectory(prefix="shardlift-") as folder:
        first = record(before, settings, os.path.join(folder, "before.json"), tell)
        notes: list[str] = []
        if before.program is None:
            settings, notes = settings_from_capture(first.recorded.capture, settings)
        second = record(after, settings, os.path.join(folder, "after.json"), tell, first)
        tell("comparing")
        platforms = {process.platform for process in second.recorded.capture.processes}
        if is_made_deterministic(os.environ) and platforms - {"", "cpu"}:
            notes.append(DETERMINISTIC_NOTE)
        outcome = judge_runs(first, second, settings.tolerance, notes)
        outcome = replace(outcome, live=bool(before.program and after.program))
        same_end = first.side.status == second.side.status
        if before.program is None or not same_end or not outcome.count(Verdict.DIFFERENT):
            return outcome
        return _compare_again(before, settings, folder, tell, (first, second), notes)


def _compare_again(
    source: RunSource,
    settings: ComparisonOptions,
    folder: str,
    tell: Tell,
    runs: tuple[Run, Run],
    notes: Sequence[str],
) -> ProgramVerdict:
    """Compare with another run of the program before, which keeps the values that differ."""
    first, second = runs
    try:
        path = os.path.join(folder, "again.json")
        again = record(source, settings, path, tell, reference=second)
    except CannotRunError:
        return judge_runs(first, second, settings.tolerance, notes)
    unstable = unstable_sites(judge_runs(first, again, Tolerance()))
    outcome = judge_runs(again, second, settings.tolerance, notes)
    differing = [site for site in outcome.sites if identity(site) in unstable]
    names = ", ".join(f"{site.name} ({site.before.where})" for site in differing if site.before)
    note = f"different numbers in two runs: {names}" if names else "the same numbers in two runs"
    because = ("the program before is not deterministic: two runs of it differ",)
    sites = tuple(
        replace(site, causes=because)
        if site in differing and site.verdict == Verdict.DIFFERENT
        else site
        for site in outcome.sites
    )
    return replace(outcome, sites=sites, notes=(*outcome.notes, f"BEFORE gave {note}"))


def judge_runs(
    before: Run, after: Run, tolerance: Tolerance, notes: Sequence[str] = ()
) -> ProgramVerdict:
    """Compare two runs."""
    count = before.processes
    if count != after.processes:
        raise CannotRunError(
            f"{count} processes before and {after.processes} after cannot be compared"
        )
    both = [process for process in before.parts if process in after.parts]
    if not both:
        raise CannotRunError("no process was recorded both before and after")
    pairs = {k: (before.parts[k], after.parts[k]) for k in both}
    sites = judge_processes(pairs, count, tolerance)
    notes = (*notes, *notes_on_jits(before.recorded.capture, after.recorded.capture))
    if count > 1:
        notes += (f"{count} processes, each compared with itself",)
    return ProgramVerdict(before.side, after.side, tuple(sites), tolerance, notes)


def settings_from_capture(
    capture: Capture, settings: ComparisonOptions
) -> tuple[ComparisonOptions, list[str]]:
    """Options for comparing a program with a capture: its processes, devices and random
    numbers.
    """
    process = capture.processes[0] if capture.processes else None
    if process is None:
        return settings, []
    if settings.processes == 1 and process.platform == "cpu":
        settings = replace(settings, processes=process.count)
    if settings.devices is None and process.platform == "cpu":
        settings = replace(settings, devices=len(process.devices))
    # JAX 0.5.0 turned jax_threefry_partitionable on: the same key gives other random numbers.
    restored = bool(capture.used.keys() & {*RANDOM_KEYS})  # `run` turned it off
    old = restored or process.jax.startswith(("0.3.", "0.4."))
    if old and THREEFRY not in os.environ:
        note = (
            "JAX before 0.5 draws other random numbers from the same key, and so did the recorded "
            "run; AFTER ran with jax_threefry_partitionable off, the default of those versions"
        )
        return replace(settings, environ={THREEFRY: "0"}), [note]
    return settings, []


def record(
    source: RunSource,
    settings: ComparisonOptions,
    out: str,
    tell: Tell,
    before: Run | None = None,
    reference: Run | None = None,
) -> Run:
    """Run a program and write its capture to ``out``.

    The program after is compared with ``before``. When the program before is run once more, the
    values are kept that differ from the values of ``reference``.
    """
    if source.program is None:
        return _read(Side(source.text, status=None), source.text)
    after = before is not None
    more = " once more" if reference is not None else ""
    tell(f"running {'after' if after else 'before'}{more}: {source.text}")
    many = settings.processes > 1
    other = before or reference
    # Within a tolerance are values, not digests.
    kept_calls = None if settings.tolerance and other is None else KEPT_CALLS
    options = RunOptions(
        patch=settings.patch_after or not after,
        record=out,
        quiet=True,
        facts=settings.facts and not after,
        tape=TapeOptions(settings.keep, settings.tapped, kept_calls),
        seed=SEED,
        reference=other and other.path,
    )
    env = environment(settings.devices, os.environ, settings.processes)
    env |= {**(settings.environ if after else {}), **source.environ}
    status, output, error = run_program(source, options, settings, env)
    parts = [part_path(out, process) for process in range(settings.processes)] if many else [out]
    if not all(map(os.path.exists, parts)):
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        why = f"\n{error}" if error else ""
        raise CannotRunError(f"{source.text} {how} without a recorded call of JAX{why}")
    return _read(Side(source.text, status=status, error=error), out)._replace(output=output)


def _read(side: Side, path: str) -> Run:
    try:
        files = read_processes(path)
    except OSError as error:
        raise CannotRunError(f"{path} cannot be read: {error.strerror}") from None
    parts = {
        k: CapturedRun(capture, array_archive.load(file)) for k, (file, capture) in files.items()
    }
    run = Run(side, parts, path)
    first = run.recorded.capture
    jax = first.processes[0].jax if first.processes else ""
    children = sum(part.capture.children for part in parts.values())
    return run._replace(side=replace(side, jax=jax, children=children))
