"""What `fix` and `migrate` can be asked for: their common options, and what these need."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from shardlift.rewrite.goal import Goal

Function = TypeVar("Function", bound=Callable[..., Any])

_NUMBERS: dict[str, Any] = {"ulps": int, "rounding": int, "rtol": float, "atol": float}


class ToleranceOption(click.ParamType[Any]):
    """``rounding=8``, ``ulps=4``, ``rtol=1e-6``, ``ulps=4,atol=1e-9``."""

    name = "tolerance"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The numbers by their names: the class for them needs NumPy."""
        if isinstance(value, dict):
            return value
        given: dict[str, Any] = {}
        for part in value.split(","):
            name, _, number = part.strip().partition("=")
            try:
                given[name] = _NUMBERS[name](number)
                if not given[name] >= 0:
                    raise ValueError
            except (KeyError, ValueError):
                self.fail(f"{part!r} is not rounding=N, ulps=N, rtol=X or atol=X", param, ctx)
        return given


# What rounding may change where numbers are added in another order, of the largest number of an
# array: 84 times the precision of float32; of shorter types, 4 units in the last place.
OTHER_ORDER = {"rtol": 1e-5, "rounding": 4}
PATHS = click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path())
EXCLUDE = click.option(
    "--exclude",
    multiple=True,
    metavar="PATTERN",
    help="Leave out what has this name, e.g. build, or path, e.g. src/old_*.",
)
_OPTIONS = (
    PATHS,
    click.option(
        "--diff/--write", "diff", default=True, help="Show the change (default), or make it."
    ),
    click.option(
        "--target-jax",
        metavar="V",
        help="Rewrite the names that this JAX no longer has, e.g. 0.10.2. Default: as for `check`, "
        "or the newest if the new text needs a newer one than that.",
    ),
    EXCLUDE,
    click.option("--allow-dirty", is_flag=True, help="Write what git does not have, too."),
    click.option(
        "--pr", metavar="FILE", help="With --write: a pull request's description, in Markdown."
    ),
    click.option("--format", "style", type=click.Choice(["text", "json"]), default="text"),
    click.option("--quiet", "-q", is_flag=True, help="No summary; with --write, nothing at all."),
    click.option("--verbose", "-v", is_flag=True, help="Also each place that was rewritten."),
    click.option(
        "--verify",
        metavar="COMMAND",
        help='With --write: run COMMAND ("python train.py --steps 3", "pytest tests") before and '
        "after, and back out the places whose numbers differ.",
    ),
    click.option(
        "--tolerance",
        type=ToleranceOption(),
        metavar="rounding=N,ulps=N,rtol=X,atol=X",
        help="With --verify: tolerance for 'close'. [default: bit-identical; for --to global "
        "rounding=8, in ulps of the largest number of each array; for --to jit "
        "rtol=1e-5,rounding=4]",
    ),
    click.option(
        "--devices",
        type=click.IntRange(1),
        help="With --verify: virtual CPU devices; 8, unless there is an accelerator.",
    ),
    click.option(
        "--processes",
        type=click.IntRange(1),
        metavar="N",
        help="Write for programs of N processes, and with --verify run COMMAND in N local ones. "
        "Default: for one or for many, as the code of each program says.",
    ),
)
_OF_RUN = ("verify", "tolerance", "devices", "processes")
_OF_OUTPUT = ("pr", "style", "quiet", "verbose")


def rewrite_options(command: Function) -> Function:
    """Give a command the options of `Request`, as keyword arguments."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class RewriteCommand(click.Command):
    """A command whose options are listed by what they are for."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section per group."""
        groups: dict[str, list[tuple[str, str]]] = {"Rewrite": [], "Verify": [], "Output": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                is_output = parameter.name in _OF_OUTPUT or "--help" in parameter.opts
                is_run = parameter.name in _OF_RUN
                groups["Output" if is_output else "Verify" if is_run else "Rewrite"].append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)


@dataclass(frozen=True)
class Request:
    """What a command was asked to rewrite, how to verify it, and how to show it."""

    goal: Goal
    paths: tuple[str, ...]
    diff: bool
    target_jax: str | None
    exclude: tuple[str, ...]
    allow_dirty: bool
    verify: str | None
    tolerance: Mapping[str, float] | None
    devices: int | None
    processes: int | None
    pr: str | None
    style: str
    quiet: bool
    verbose: bool
    facts: tuple[str, ...] = ()

    @property
    def many_processes(self) -> bool | None:
        """Whether to write for many processes; None: as the code says."""
        return None if self.processes is None else self.processes > 1

    def check(self) -> None:
        """Raise a usage error where options need each other."""
        goal, needs_run = self.goal, self.goal in (Goal.GLOBAL, Goal.JIT)
        if self.pr is not None and self.diff:
            raise click.UsageError("--pr describes what was written: say --write, too")
        if self.verify is not None and self.diff:
            raise click.UsageError(
                "--verify runs the new text, so it has to be written: add --write"
            )
        for name in ("tolerance", "devices"):
            if getattr(self, name) and self.verify is None:
                raise click.UsageError(f'--{name} needs --verify "COMMAND": a run that shows it')
        if self.facts and not needs_run:
            raise click.UsageError("--facts is for --to global and --to jit")
        if needs_run and not self.facts and self.verify is None:
            raise click.UsageError(
                f"--to {goal.value} needs a run that shows what is equal on all devices: add "
                '--write --verify "python train.py", or record one with `shardlift run --record '
                "run.json PROGRAM` and add --facts run.json"
            )
        if goal is Goal.JIT and not self.diff and self.verify is None:
            raise click.UsageError(
                "--to jit adds numbers in another order, and is written only where a run shows "
                'that they are equal to rounding: add --verify "COMMAND"'
            )
