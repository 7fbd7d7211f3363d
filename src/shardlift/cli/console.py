"""The console that commands print to."""

from __future__ import annotations

import os
import sys

from rich.console import Console

__all__ = ["console"]


def console(piped: int) -> Console:
    """A console as wide as the terminal or COLUMNS; ``piped`` columns if there is neither."""
    has_width = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return Console(highlight=False, width=None if has_width else piped)
