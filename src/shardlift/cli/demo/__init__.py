"""``shardlift demo``: every command, on a pmap program from 2022 that comes with the package."""

from __future__ import annotations

import importlib.util
import platform
import sys
import time
from importlib import metadata
from pathlib import Path

import click
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from shardlift import __version__
from shardlift.cli.demo.folder import Folder, FolderError
from shardlift.cli.demo.stage import DEVICES, Stage
from shardlift.cli.demo.steps import AFTER, BEFORE, STEPS, Step, bundled, needed_for
from shardlift.cli.stop import stop

__all__ = ["demo"]

_HELP = f"""Show every command on this machine, on {DEVICES} virtual CPU devices.

A training program from 2022 fails on today's JAX, runs unmodified, is recorded, checked, rewritten,
proven to compute the same bits, and timed. Each command is printed as you would type it, and then
run. With STEP, run only that step: {", ".join(STEPS)}.

Exit status: 0, every step succeeded; 1, a step failed; 2, the demo could not start.
"""


@click.command(
    help=_HELP,
    short_help="Show every command on a bundled program from 2022.",
    epilog="Example: shardlift demo --into /tmp/demo",
)
@click.argument("step", required=False, type=click.Choice(list(STEPS)), metavar="[STEP]")
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    default="shardlift-demo",
    metavar="DIR",
    help="Folder for the files of the demo. Your own files are never overwritten.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print only the result of each step.")
@click.option("--verbose", "-v", is_flag=True, help="Print the whole output of the commands.")
def demo(step: str | None, into: Path, quiet: bool, verbose: bool) -> None:
    """Run the demo."""
    if importlib.util.find_spec("jax") is None:
        stop('JAX is not installed: pip install "shardlift[jax]"')
    console = _console()
    try:
        stage = Stage(Folder(into), console, quiet, verbose)
        if not stage.folder.has(BEFORE) or step is None:
            for name, content in bundled().items():
                stage.folder.put(name, content)
        chosen = needed_for(STEPS[step], stage) if step else list(STEPS.values())
        _greet(stage)
        good = all(_play(stage, each, k, len(chosen)) for k, each in enumerate(chosen, 1))
    except (FolderError, OSError) as error:
        stop(str(error))
    except KeyboardInterrupt:
        stop(f"interrupted; the files so far are in {into}", status=130)
    if good and step is None:
        _next(stage)
    sys.exit(0 if good else 1)


def _console() -> Console:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # for terminals that cannot show ✓
    console = Console(highlight=False)
    console.width = min(console.width, 100)
    return console


def _greet(stage: Stage) -> None:
    about = f"shardlift {__version__} · JAX {metadata.version('jax')} · Python "
    stage.say(f"{about}{platform.python_version()} · {DEVICES} virtual CPU devices", "bold")
    stage.say(f"All files are in {stage.folder.path}/.")


def _play(stage: Stage, step: Step, number: int, count: int) -> bool:
    """Run one step and print its verdict."""
    if not stage.quiet:
        title = Text.assemble((f"{number}/{count}  ", "dim"), (step.title, "bold"))
        stage.console.print("", Rule(title, align="left", style="dim"), sep="\n")
    stage.folder.check_unchanged(*step.writes)
    start = time.perf_counter()
    try:
        verdict = step.play(stage)
    finally:  # these files belong to the demo now, even if the step was interrupted
        stage.folder.keep(*filter(stage.folder.has, step.writes))
    mark, colour = ("✓", "green") if verdict.good else ("✗", "red")
    if stage.console.options.ascii_only:
        mark = "ok" if verdict.good else "FAILED"
    line = Text.assemble((f"{mark} {step.name}: ", f"bold {colour}"), verdict.text)
    line.append(f"  ({time.perf_counter() - start:.0f} s)", "dim")
    stage.console.print(line, soft_wrap=True)
    if not verdict.good:
        click.echo(
            "shardlift demo: `shardlift doctor` looks for problems of this machine", err=True
        )
    return verdict.good


def _next(stage: Stage) -> None:
    if stage.quiet:
        return
    stage.console.print("", Rule(Text("With your own code", "bold"), align="left", style="dim"), "",
        sep="\n")  # fmt: skip
    for command in (
        "shardlift run --devices 8 --record run.json train.py ARGS",
        "shardlift report run.json --html report.html",
        "shardlift check .",
        "shardlift migrate .                 # then again with --write",
        "shardlift verify train.py train_new.py -- ARGS",
    ):
        stage.console.print(Text(f"  {command}", "green"), soft_wrap=True)
    stage.console.print(
        f"\nOr change {stage.folder.path / AFTER}, for example remove a pmean,\n"
        "and see what `shardlift demo verify` says.",
        soft_wrap=True,
    )
