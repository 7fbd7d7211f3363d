"""The consoles that commands print to."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator

import click
from rich.console import Console

from shardlift._escape import escape_control


def console(piped: int) -> Console:
    """A console as wide as the terminal or COLUMNS; ``piped`` columns if there is neither."""
    has_width = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return Console(highlight=False, width=None if has_width else piped)


def progress_console() -> Console:
    """Standard error, for spinners and bars: silent unless it is a terminal.

    FORCE_COLOR asks for colours; rich would take it as leave to animate into a pipe, too.
    """
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return Console(stderr=True, highlight=False, force_terminal=is_terminal)


@contextlib.contextmanager
def phases(quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """What to call with each phase of long work: a spinner on a terminal, elsewhere a line each."""
    shown = progress_console()
    if shown.is_terminal:
        with shown.status("starting") as status:
            yield status.update
    elif quiet:
        yield lambda _: None
    else:
        command = click.get_current_context().info_name
        yield lambda text: click.echo(escape_control(f"shardlift {command}: {text}"), err=True)
