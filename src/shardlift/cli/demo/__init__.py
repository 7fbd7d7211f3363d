"""``shardlift demo``: the whole journey, on a program of 2022 that comes with the package."""

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

__all__ = ["demo"]

_HELP = f"""See the whole journey on this machine, on {DEVICES} virtual CPU devices.

A training program of 2022 fails on today's JAX, runs unmodified, is looked at, checked, rewritten,
proven to compute the same bits, and timed. Each command is printed as you would type it, and
really run. With STEP, only that one: {", ".join(STEPS)}.

Exit status: 0 if all went as it should, 1 if something did not, 2 if it could not be tried.
"""


@click.command(
    help=_HELP,
    short_help="The whole journey on a bundled program of 2022.",
    epilog="Example: shardlift demo --into /tmp/journey",
)
@click.argument("step", required=False, type=click.Choice(list(STEPS)), metavar="[STEP]")
@click.option(
    "--into",
    type=click.Path(file_okay=False, path_type=Path),
    default="shardlift-demo",
    metavar="DIR",
    help="Where its files go; shardlift-demo. Nothing of yours is written over.",
)
@click.option("--quiet", "-q", is_flag=True, help="What came of each step only.")
@click.option("--verbose", "-v", is_flag=True, help="All that the commands print, unshortened.")
def demo(step: str | None, into: Path, quiet: bool, verbose: bool) -> None:
    """Play it."""
    if importlib.util.find_spec("jax") is None:
        _refuse('JAX is not installed here: pip install "shardlift[jax]"')
    console = _console()
    try:
        stage = Stage(Folder(into), console, quiet, verbose)
        if not stage.folder.has(BEFORE) or step is None:
            for name, content in bundled().items():
                stage.folder.put(name, content)
        chosen = needed_for(STEPS[step], stage) if step else list(STEPS.values())
        _greet(stage)
        good = all(_play(stage, one, k, len(chosen)) for k, one in enumerate(chosen, 1))
    except (FolderError, OSError) as error:
        _refuse(str(error))
    except KeyboardInterrupt:
        click.echo(f"\nshardlift demo: interrupted; what there is so far is in {into}", err=True)
        sys.exit(130)
    if good and step is None:
        _next(stage)
    sys.exit(0 if good else 1)


def _console() -> Console:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without our signs gets others
    console = Console(highlight=False)
    console.width = min(console.width, 100)
    return console


def _greet(stage: Stage) -> None:
    about = f"shardlift {__version__} · JAX {metadata.version('jax')} · Python "
    stage.say(f"{about}{platform.python_version()} · {DEVICES} virtual CPU devices", "bold")
    stage.say(f"Everything runs, and stays, in {stage.folder.path}/.")


def _play(stage: Stage, step: Step, number: int, count: int) -> bool:
    """One step, with its verdict."""
    if not stage.quiet:
        title = Text.assemble((f"{number}/{count}  ", "dim"), (step.title, "bold"))
        stage.console.print("", Rule(title, align="left", style="dim"), sep="\n")
    stage.folder.free(*step.writes)
    start = time.perf_counter()
    try:
        verdict = step.play(stage)
    finally:  # what was free is ours now, even if it was interrupted half-way
        stage.folder.keep(*filter(stage.folder.has, step.writes))
    mark, colour = ("✓", "green") if verdict.good else ("✗", "red")
    if stage.console.options.ascii_only:
        mark = "ok" if verdict.good else "FAILED"
    said = Text.assemble((f"{mark} {step.name}: ", f"bold {colour}"), verdict.text)
    said.append(f"  ({time.perf_counter() - start:.0f} s)", "dim")
    stage.console.print(said, soft_wrap=True)
    if not verdict.good:
        click.echo(
            "shardlift demo: `shardlift doctor` looks for what is wrong on this machine", err=True
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
        "shardlift migrate .                 # then the same with --write",
        "shardlift verify train.py train_new.py -- ARGS",
    ):
        stage.console.print(Text(f"  {command}", "green"), soft_wrap=True)
    stage.console.print(
        f"\nOr change a line of {stage.folder.path / AFTER}, take out a pmean say,\n"
        "and see what `shardlift demo verify` makes of it.",
        soft_wrap=True,
    )


def _refuse(message: str) -> None:
    click.echo(f"shardlift demo: {message}", err=True)
    sys.exit(2)
