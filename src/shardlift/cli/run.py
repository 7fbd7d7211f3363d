"""``shardlift run``: run a program unmodified, in one process or in several."""

import contextlib
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import click

from shardlift.capture.parts import find_parts, merge_parts, read_whole
from shardlift.cli import Interrupted
from shardlift.cli.config import ConfigError, find_config
from shardlift.cli.formats.program_run import RunDocument
from shardlift.cli.stop import stop_if_jax_is_too_old
from shardlift.cli.stuck import explain_stuck
from shardlift.launch.job import STUCK_STATUS, Failure, Job
from shardlift.launch.member import Member
from shardlift.launch.program import Program, report_uncaught, use_virtual_devices
from shardlift.launch.session import RunOptions, RunSession
from shardlift.launch.stuck import WhenStuck
from shardlift.recording.tape.options import TapeOptions
from shardlift.source.model import Version, version
from shardlift.source.target import oldest_allowed

_PMAP_YEARS = (0, 4)  # when most programs with pmap were written

_HELP = """Run a pmap program written for an earlier JAX, unmodified, on the installed JAX.

While the program runs, jax.pmap behaves as it did before JAX 0.8, and the names that JAX has
removed since are restored. Exit status, arguments, tracebacks and signals are those of plain
python. A notebook runs too, one code cell after the other.

With several processes, each line of output begins with the number of the process that printed it.
The first process that fails is shown as the root cause, the others are stopped, and its exit
status is returned. If no process uses the CPU or prints anything for a while, shardlift prints once
where each of them waits.
"""


@click.command(
    help=_HELP,
    short_help="Run a pmap program unmodified, in one process or in several.",
    epilog="Example: shardlift run --devices 8 --record run.json train.py --epochs 3",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--devices", type=click.IntRange(1), help="Virtual CPU devices per process.")
@click.option("--processes", type=click.IntRange(1), default=1, help="Number of local processes.")
@click.option(
    "--record",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Record every pmap site. In a job of many processes each writes its part, FILE.0, FILE.1 "
    "and so on; they are merged at the end.",
)
@click.option(
    "--record-inputs",
    type=click.IntRange(0),
    metavar="BYTES",
    help="With --record: also record the inputs and outputs of every call, for `verify`: "
    "digests of all arrays, and up to BYTES of their values.",
)
@click.option("--no-patch", is_flag=True, help="Restore nothing; only run and record.")
@click.option(
    "--written-for",
    metavar="VERSION",
    help="The JAX release that the program was written for: names whose meaning has changed since "
    "mean what they did then, and before 0.5 a random key drew other numbers.  "
    "[default: the oldest that the project's requirements allow, or else 0.4]",
)
@click.option("-q", "--quiet", is_flag=True, help="Print no summary at the end.")
@click.option(
    "--stuck-after",
    type=click.FloatRange(0),
    default=60,
    metavar="SECONDS",
    help="With --processes: after how long without CPU use and output to print where each process "
    "waits; 0 turns it off.",
)
@click.option(
    "--end-when-stuck", is_flag=True, help=f"End the job then, with exit status {STUCK_STATUS}."
)
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json: print what happened as JSON, and what PROGRAM prints to standard error.",
)
@click.option("-m", "module", is_flag=True, help="PROGRAM is the name of a module.")
@click.argument("program", type=click.Path())
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
def run(
    devices: int | None,
    processes: int,
    record: str | None,
    record_inputs: int | None,
    no_patch: bool,
    written_for: str | None,
    quiet: bool,
    stuck_after: float,
    end_when_stuck: bool,
    style: str,
    module: bool,
    program: str,
    args: tuple[str, ...],
) -> None:
    """Run PROGRAM with ARGS."""
    if not module and not os.path.exists(program):
        raise click.UsageError(f"no such program: {program}")
    if record is not None:
        record = os.path.abspath(record)  # the program may change the current folder
        if not os.access(os.path.dirname(record), os.W_OK):
            raise click.UsageError(f"cannot write to the folder of {record}")
    if record_inputs is not None and record is None:
        raise click.UsageError("--record-inputs needs --record")
    if end_when_stuck and not (stuck_after and processes > 1):
        raise click.UsageError("--end-when-stuck needs --processes, and --stuck-after above 0")
    stop_if_jax_is_too_old()
    what = Program(program, args, module)
    tape = None if record_inputs is None else TapeOptions(keep=record_inputs)
    then = None if no_patch else _written_for(written_for, os.curdir if module else program)
    options = RunOptions(not no_patch, record, then, quiet=quiet, tape=tape)
    report = lambda stuck: click.echo(explain_stuck(stuck, ended=False), err=True)  # noqa: E731
    when_stuck = WhenStuck(stuck_after, report, end_when_stuck) if stuck_after else None
    told = RunDocument(what)
    with told.instead_of_output() if style == "json" else contextlib.nullcontext():
        if processes == 1:
            run_here(what, devices, options, told)
        else:
            if devices is None and "JAX_PLATFORMS" not in os.environ:
                devices = 1
            run_many(Job(what, processes, devices, _echo, options, when_stuck=when_stuck), told)


def _written_for(given: str | None, program: str) -> Version:
    """The JAX that a program was written for: the option, or what its project says."""
    if given is not None:
        try:
            return version(given)
        except ValueError as error:
            raise click.UsageError(f"--written-for: {error}") from None
    try:
        pins = find_config(Path(program)).pins
    except ConfigError:  # `check` tells what is wrong with it
        pins = ()
    return oldest_allowed(pin.text for pin in pins) or _PMAP_YEARS


def run_here(program: Program, devices: int | None, options: RunOptions, told: RunDocument) -> None:
    """Run the program in this process, one of a job perhaps, and exit with its status."""
    if devices is not None:
        try:
            use_virtual_devices(devices)
        except RuntimeError as error:
            raise click.UsageError(f"--devices {devices} comes too late, {error}") from None
    session = RunSession(options, program)
    told.uses = session.uses
    member = Member(session)
    status: Any = 0
    try:
        program.run()
    except SystemExit as error:
        status = error.code
    except KeyboardInterrupt as error:
        report_uncaught(error)
        raise Interrupted from None
    except BaseException as error:
        session.error = error
        status = report_uncaught(error)[0]
        told.add_error(error)
    finally:
        written = member.end(status)
    sys.exit(status if status or written else 2)


def _echo(process: int, stream: str, line: str) -> None:
    click.echo(f"[{process}] {line}", err=stream == "stderr")


def run_many(job: Job, told: RunDocument) -> None:
    """Run the program in several processes; explain a failure, and exit with its status."""
    outcome, processes, options = job.run(), job.processes, job.options
    if outcome.failure:
        told.add_failure(outcome.failure)
        click.echo(explain(outcome.failure, processes), err=True)
    elif outcome.stuck:
        click.echo(explain_stuck(outcome.stuck, ended=True), err=True)
    elif outcome.interrupted:
        click.echo(f"shardlift: interrupted; all {processes} processes were stopped", err=True)
    merged = options.record is None or _merge(options.record, processes, options)
    sys.exit(outcome.status if outcome.status or merged else 2)


def _merge(record: str, processes: int, options: RunOptions) -> bool:
    """Merge the parts of the record; False if that fails."""
    # With the arrays of calls the parts stay: `verify` reads them there.
    read = merge_parts if options.tape is None else read_whole
    try:
        present = bool(find_parts(record)) and len(read(record).processes)
    except (ValueError, OSError) as error:
        click.echo(f"shardlift: the records could not be merged: {error}", err=True)
        return False
    if present < processes:
        click.echo(f"shardlift: {int(present)} of {processes} processes wrote a record", err=True)
    if present and not options.quiet:
        click.echo(f"shardlift: next: shardlift report {shlex.quote(record)}", err=True)
    return True


def explain(failure: Failure, processes: int) -> str:
    """The root cause as text."""
    how = (
        f"was killed by signal {-failure.status}"
        if failure.status < 0
        else f"failed first, with exit status {failure.status}"
    )
    lines = [f"shardlift: process {failure.process} of {processes} {how}; the others were stopped"]
    if failure.waiting_for:
        names = ", ".join(map(str, failure.waiting_for))
        lines.append(
            f"shardlift: it was waiting for process {names}, which had not imported jax yet"
        )
    if failure.traceback:
        lines += ["shardlift: its traceback:", failure.traceback.rstrip()]
    lines += [f"shardlift: {advice}" for advice in failure.advice]
    return "\n".join(lines)
