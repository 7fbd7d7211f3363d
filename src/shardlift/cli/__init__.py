"""The command line: one module per command, imported only when the command is invoked."""

import contextlib
import difflib
import importlib
import io
import os
import sys
from typing import Any

import click

from shardlift import __version__
from shardlift._escape import escape_control
from shardlift.cli.stop import stop

# Heading in `--help` -> commands. Each is in the module of its name.
GROUPS = {
    "Start": ("demo", "doctor"),
    "Use": ("run", "check", "fix", "migrate", "verify", "report", "rule"),
    "As a team": ("status",),
    "For tools": ("lsp",),
}
COMMANDS = [name for names in GROUPS.values() for name in names]


class Interrupted(BaseException):
    """A program was interrupted and its traceback printed; all that is left is to end by SIGINT."""


class LazyGroup(click.Group):
    """A group that imports a command when it is invoked: `check` must not import JAX."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Every command, in the order of `COMMANDS`."""
        return COMMANDS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"shardlift.cli.{cmd_name}")
        return next(made for made in vars(module).values() if isinstance(made, click.Command))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with the nearest command for one that does not exist."""
        nearest = difflib.get_close_matches(args[0], COMMANDS, 1)
        if args[0] not in COMMANDS and nearest:
            ctx.fail(f"No such command '{escape_control(args[0])}'. Did you mean '{nearest[0]}'?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands under their headings, each with its whole summary."""
        for heading, names in GROUPS.items():
            commands = [command for name in names if (command := self.get_command(ctx, name))]
            with formatter.section(heading):
                formatter.write_dl([(c.name or "", c.get_short_help_str(200)) for c in commands])

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command. Like python, and unlike click, end by SIGINT on an uncaught Ctrl-C."""
        try:
            return super().main(*args, **options)
        except Interrupted:
            sys.excepthook = lambda *_: None
            raise KeyboardInterrupt from None
        except OSError as error:  # such as a full disk behind stdout, or a deleted current folder
            # Python would try again when it exits, and complain.
            with contextlib.suppress(OSError, ValueError, AttributeError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            where = f"{error.filename}: " if error.filename else ""
            stop(f"{where}{error.strerror or error}")


@click.group(
    cls=LazyGroup,
    epilog="Begin with: shardlift demo, or shardlift run train.py",
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(__version__, "-V", "--version", prog_name="shardlift")
@click.pass_context
def main(ctx: click.Context) -> None:
    """The way off jax.pmap: run it, check it, rewrite it, prove it."""
    if ctx.invoked_subcommand == "run":
        return  # the output of a program is left as python makes it
    # Printing never fails: not with a closed stdout, nor with characters it cannot encode.
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
