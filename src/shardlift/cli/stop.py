"""The one way in which a command stops with an error."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from shardlift._escape import escape_control


def stop(message: str, status: int = 2) -> NoReturn:
    """Print `shardlift COMMAND: message` to standard error and exit."""
    context = click.get_current_context(silent=True)
    command = f" {context.info_name}" if context is not None else ""
    click.echo(escape_control(f"shardlift{command}: {message}", keep="\n\t"), err=True)
    sys.exit(status)
