"""``shardlift doctor``: does it work here? Tried, not guessed."""

from __future__ import annotations

import sys

import click
from rich.console import Console
from rich.text import Text

from shardlift.cli.doctor.checks import CHECKS, Found, State

__all__ = ["doctor"]

_COLOURS = {
    State.FINE: "green",
    State.NOTE: "yellow",
    State.FAILED: "bold red",
    State.NOT_TRIED: "yellow",
}


@click.command(short_help="Try whether everything works here.", epilog="Example: shardlift doctor")
@click.option(
    "--timeout",
    type=click.IntRange(1),
    default=120,
    metavar="SECONDS",
    help="The longest that one check may take; 120.",
)
@click.option("--quiet", "-q", is_flag=True, help="What is not fine only.")
def doctor(timeout: int, quiet: bool) -> None:
    """Try whether everything works here, two processes that talk to each other included.

    Nothing is written. Exit status: 0 all fine, 1 something failed, 2 something could not be tried.
    """
    console, progress = Console(highlight=False), Console(stderr=True)
    states = []
    for name, check in CHECKS.items():
        with progress.status(name):
            try:
                found = check(timeout)
            except KeyboardInterrupt:
                click.echo("shardlift doctor: interrupted", err=True)
                sys.exit(130)
        states.append(found.state)
        if not (quiet and found.state is State.FINE):
            _show(console, name, found)
    _conclude(console, states, quiet)


def _show(console: Console, name: str, found: Found) -> None:
    word = (f"{found.state.value:<10}", _COLOURS[found.state])
    console.print(Text.assemble(word, f"{name:<19}", found.text), soft_wrap=True)
    if found.way_out:
        console.print(Text(f"{'':10}→ {found.way_out}"), soft_wrap=True)


def _conclude(console: Console, states: list[State], quiet: bool) -> None:
    failed, missed = states.count(State.FAILED), states.count(State.NOT_TRIED)
    done = f"{len(states) - missed} checks, {failed} failed"
    if not quiet or failed or missed:
        console.print(f"\n{done}{f', {missed} not tried' if missed else ''}")
    sys.exit(1 if failed else 2 if missed else 0)
