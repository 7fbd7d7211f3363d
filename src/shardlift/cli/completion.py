"""``shardlift completion``: what a shell has to be told to complete commands and options."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
from click.shell_completion import get_completion_class

__all__ = ["completion"]

# Where each shell looks, or is told to look.
_HOW = {
    "bash": 'eval "$(shardlift completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(shardlift completion zsh)"   # in ~/.zshrc, after compinit',
    "fish": "shardlift completion fish > ~/.config/fish/completions/shardlift.fish",
}


@click.command(
    short_help="Print a shell's completion script.",
    epilog="Example: shardlift completion fish > ~/.config/fish/completions/shardlift.fish",
)
@click.argument("shell", required=False, type=click.Choice(list(_HOW)))
@click.option("--how", is_flag=True, help="Say what to do with it.")
def completion(shell: str | None, how: bool) -> None:
    """Print the script by which SHELL completes commands, options and their values.

    Without SHELL, that of $SHELL. Nothing is installed.
    """
    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in _HOW:
        click.echo(f"shardlift completion: which shell? one of {', '.join(_HOW)}", err=True)
        sys.exit(2)
    if how:
        click.echo(_HOW[shell])
        return
    click.echo(source(shell))


def source(shell: str) -> str:
    """The script of a shell.

    >>> "_SHARDLIFT_COMPLETE" in source("zsh")
    True
    """
    from shardlift.cli import main

    found = get_completion_class(shell)
    assert found is not None  # click knows every shell of the table
    made = found(main, {}, "shardlift", "_SHARDLIFT_COMPLETE")
    template = {**made.source_vars()}
    return made.source_template % template
