"""The command line: one file a command, imported when it is invoked and not before."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from typing import Any

import click

from shardlift import __version__

# Command -> where it lives.
COMMANDS = {
    "demo": "shardlift.cli.demo:demo",
    "run": "shardlift.cli.run:run",
    "report": "shardlift.cli.report:report",
    "check": "shardlift.cli.check:check",
    "migrate": "shardlift.cli.migrate:migrate_command",
    "rule": "shardlift.cli.rule:rule",
    "verify": "shardlift.cli.verify:verify",
    "record-legacy": "shardlift.cli.record_legacy:record_legacy",
    "env": "shardlift.cli.env:env",
    "doctor": "shardlift.cli.doctor:doctor",
    "completion": "shardlift.cli.completion:completion",
}


class Interrupted(BaseException):
    """A program was interrupted, and its traceback shown: what is left is to end as python does."""


class LazyGroup(click.Group):
    """A group whose commands are named here and loaded there: `check` must not import JAX."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Every command, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command, imported now."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command; python ends by SIGINT when it is not caught, which click would."""
        try:
            return super().main(*args, **options)
        except Interrupted:
            sys.excepthook = lambda *_: None
            raise KeyboardInterrupt from None
        except OSError as error:  # of ours: a full disk below stdout, a current folder that is gone
            _drop_output()
            where = f"{error.filename}: " if error.filename else ""
            click.echo(f"shardlift: {where}{error.strerror or error}", err=True)
            sys.exit(2)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="shardlift")
@click.pass_context
def main(ctx: click.Context) -> None:
    """The way off jax.pmap: run it, check it, rewrite it, prove it."""
    if ctx.invoked_subcommand != "run":  # what a program prints itself is left as python has it
        _prepare_output()


def _prepare_output() -> None:
    """Whatever is printed can be: to nothing if stdout is closed, in letters that there are."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Forget what could not be written: python would try once more at its end, and complain."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
