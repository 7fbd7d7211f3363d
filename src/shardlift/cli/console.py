"""Where commands print."""

from __future__ import annotations

import os
import sys

from rich.console import Console

__all__ = ["console"]


def console(piped: int) -> Console:
    """Colours, and a width, only where there is a terminal to have them, or COLUMNS says one.

    ``piped`` is the width elsewhere.
    """
    known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return Console(highlight=False, width=None if known else piped)
