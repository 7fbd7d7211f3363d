"""``shardlift doctor``: test whether everything works on this machine."""

from __future__ import annotations

import sys

import click
from rich.console import Console
from rich.text import Text

from shardlift.cli.doctor.checks import CHECKS, Result, State
from shardlift.cli.stop import stop

__all__ = ["doctor"]

_COLOURS = {
    State.FINE: "green",
    State.NOTE: "yellow",
    State.FAILED: "bold red",
    State.NOT_RUN: "yellow",
}


@click.command(
    short_help="Test whether everything works on this machine.", epilog="Example: shardlift doctor"
)
@click.option(
    "--timeout",
    type=click.IntRange(1),
    default=120,
    metavar="SECONDS",
    help="Time limit for one check.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print problems only.")
def doctor(timeout: int, quiet: bool) -> None:
    """Test whether everything works on this machine, including two processes that communicate.

    Writes no files. Exit status: 0, all fine; 1, a check failed; 2, a check could not be run.
    """
    console, progress = Console(highlight=False), Console(stderr=True)
    states = []
    for name, check in CHECKS.items():
        with progress.status(name):
            try:
                result = check(timeout)
            except KeyboardInterrupt:
                stop("interrupted", status=130)
        states.append(result.state)
        if not (quiet and result.state is State.FINE):
            _show(console, name, result)
    _conclude(console, states, quiet)


def _show(console: Console, name: str, result: Result) -> None:
    word = (f"{result.state.value:<10}", _COLOURS[result.state])
    console.print(Text.assemble(word, f"{name:<19}", result.text), soft_wrap=True)
    if result.way_out:
        console.print(Text(f"{'':10}→ {result.way_out}"), soft_wrap=True)


def _conclude(console: Console, states: list[State], quiet: bool) -> None:
    failed, missed = states.count(State.FAILED), states.count(State.NOT_RUN)
    done = f"{len(states) - missed} checks, {failed} failed"
    if not quiet or failed or missed:
        console.print(f"\n{done}{f', {missed} not run' if missed else ''}")
    sys.exit(1 if failed else 2 if missed else 0)
