"""The one way in which a command stops with an error."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from shardlift._escape import escape_control


def stop(message: str, status: int = 2) -> NoReturn:
    """Print `shardlift COMMAND: message` to standard error and exit; as JSON too, if asked for."""
    context = click.get_current_context(silent=True)
    command = context.info_name or "" if context is not None else ""
    click.echo(
        escape_control(f"{f'shardlift {command}'.strip()}: {message}", keep="\n\t"), err=True
    )
    if context is not None and context.params.get("style") == "json":
        from shardlift.cli.document import document, item

        click.echo(document(command, status, left=[item("stopped", message)]))
    sys.exit(status)
