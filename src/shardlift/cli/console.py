"""The consoles that commands print to."""

from __future__ import annotations

import os
import sys

from rich.console import Console

__all__ = ["console", "progress_console"]


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
