"""The command line: one module per command, imported only when the command is invoked."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from typing import Any

import click

from shardlift import __version__
from shardlift.cli.stop import stop

# Command -> module and function.
COMMANDS = {
    "demo": "shardlift.cli.demo:demo",
    "run": "shardlift.cli.run:run",
    "report": "shardlift.cli.report:report",
    "plan": "shardlift.cli.plan:plan",
    "check": "shardlift.cli.check:check",
    "migrate": "shardlift.cli.migrate:migrate_command",
    "rule": "shardlift.cli.rule:rule_command",
    "verify": "shardlift.cli.verify:verify",
    "status": "shardlift.cli.status:status",
    "lsp": "shardlift.cli.lsp:lsp",
    "record-legacy": "shardlift.cli.record_legacy:record_legacy",
    "env": "shardlift.cli.env:env",
    "doctor": "shardlift.cli.doctor:doctor",
}


class Interrupted(BaseException):
    """A program was interrupted and its traceback printed; all that is left is to end by SIGINT."""


class LazyGroup(click.Group):
    """A group that imports a command when it is invoked: `check` must not import JAX."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Every command, in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command. Like python, and unlike click, end by SIGINT on an uncaught Ctrl-C."""
        try:
            return super().main(*args, **options)
        except Interrupted:
            sys.excepthook = lambda *_: None
            raise KeyboardInterrupt from None
        except OSError as error:  # such as a full disk behind stdout, or a deleted current folder
            _drop_output()
            where = f"{error.filename}: " if error.filename else ""
            stop(f"{where}{error.strerror or error}")


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, prog_name="shardlift")
@click.pass_context
def main(ctx: click.Context) -> None:
    """The way off jax.pmap: run it, check it, rewrite it, prove it."""
    if ctx.invoked_subcommand != "run":  # the output of a program is left as python makes it
        _prepare_output()


def _prepare_output() -> None:
    """Let printing never fail: not with a closed stdout, nor with characters it cannot encode."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Discard what could not be written; Python would try again when it exits, and complain."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
