"""The command line: one file a command, each imported when it is asked for."""

from __future__ import annotations

import importlib

import click

from shardlift import __version__

# Command -> where it is.
_COMMANDS = {
    "demo": "shardlift.cli.demo:demo",
    "env": "shardlift.cli.env:env",
    "run": "shardlift.cli.run:run",
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="shardlift")
def main() -> None:
    """The way off jax.pmap: run it, lint it, rewrite it, prove it."""
