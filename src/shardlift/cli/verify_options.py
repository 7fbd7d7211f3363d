"""The options of `fix` and `migrate` about running a program, and what they need."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import click

from shardlift.rewrite.goal import Goal

Function = TypeVar("Function", bound=Callable[..., Any])


_NUMBERS: dict[str, Callable[[str], float]] = {
    "ulps": int,
    "rounding": int,
    "rtol": float,
    "atol": float,
}


class ToleranceOption(click.ParamType[Any]):
    """``rounding=8``, ``ulps=4``, ``rtol=1e-6``, ``ulps=4,atol=1e-9``."""

    name = "tolerance"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """A number by its name, for the tolerance of `comparing.bits`, which wants NumPy."""
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


class Pattern(click.ParamType[Any]):
    """A regular expression."""

    name = "regex"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The text, if it is one."""
        try:
            re.compile(value)
        except re.error as error:
            self.fail(f"{value!r} is not a regular expression: {error}", param, ctx)
        return value


class Processes(click.ParamType[Any]):
    """``one``, ``many``, or how many."""

    name = "processes"

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """The word, or the number."""
        if value in ("one", "many") or isinstance(value, int):
            return value
        try:
            return click.IntRange(1).convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"{value!r} is not `one`, `many` or a number of processes", param, ctx)


# What rounding may change where numbers are added in another order, of the largest number of an
# array: 84 times the precision of float32; of shorter types, 4 units in the last place.
OTHER_ORDER = {"rtol": 1e-5, "rounding": 4}
_OPTIONS = (
    click.option(
        "--verify",
        metavar="COMMAND",
        help='With --write: run COMMAND ("python train.py --steps 3", "pytest tests") before and '
        "after, and back out the places whose numbers differ.",
    ),
    click.option(
        "--only-verified",
        is_flag=True,
        help="With --verify: back out the sites, too, that COMMAND does not reach.",
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
        "--mask",
        type=Pattern(),
        multiple=True,
        metavar="REGEX",
        help="With --verify: what may differ in what COMMAND prints. Dates, times of day, "
        "durations, rates, addresses, line numbers and temporary paths may.",
    ),
    click.option(
        "--devices",
        type=click.IntRange(1),
        help="With --verify: virtual CPU devices; 8, unless there is an accelerator.",
    ),
    click.option(
        "--processes",
        type=Processes(),
        metavar="one|many|N",
        help="Write for programs of one process, or of many. Default: as the code of each program "
        "says. With --verify, N also runs COMMAND in N local processes.",
    ),
    click.option(
        "--stuck-after",
        type=click.FloatRange(0),
        default=60,
        show_default=True,
        metavar="SECONDS",
        help="With --verify: after how long without CPU use and output to end COMMAND, and to "
        "take the change that was tried for the cause; 0 waits for ever.",
    ),
)


def verify_options(command: Function) -> Function:
    """Give a command these options, as keyword arguments."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True)
class VerifyOptions:
    """What was given for these options."""

    verify: str | None
    only_verified: bool
    tolerance: Mapping[str, float] | None
    devices: int | None
    processes: int | str | None
    stuck_after: float
    mask: tuple[str, ...] = ()

    @classmethod
    def take(cls, asked: dict[str, Any]) -> VerifyOptions:
        """These options, out of all the keyword arguments of a command."""
        return cls(**{field.name: asked.pop(field.name) for field in fields(cls)})

    @property
    def many_processes(self) -> bool | None:
        """Whether to write for many processes; None: as the code says."""
        return None if self.processes is None else self.processes not in ("one", 1)

    def for_goal(self, goal: Goal) -> VerifyOptions:
        """The options with the defaults of a goal: `--to jit` writes what holds to rounding."""
        if goal is not Goal.JIT:
            return self
        return replace(self, only_verified=True, tolerance=self.tolerance or OTHER_ORDER)

    def check(self, diff: bool, goal: Goal, facts: Sequence[str]) -> None:
        """Raise a usage error where options need each other."""
        if self.verify is not None and diff:
            raise click.UsageError(
                "--verify runs the new text, so it has to be written: add --write"
            )
        needing = ["only_verified", "tolerance", "devices", "mask"]
        for name in needing:
            if getattr(self, name) and self.verify is None:
                option = f"--{name.replace('_', '-')}"
                raise click.UsageError(f'{option} needs --verify "COMMAND": a run that shows it')
        if facts and goal not in (Goal.GLOBAL, Goal.JIT):
            raise click.UsageError("--facts is for --to global and --to jit")
        if goal in (Goal.GLOBAL, Goal.JIT) and not facts and self.verify is None:
            raise click.UsageError(
                f"--to {goal.value} needs a run that shows what is equal on all devices: add "
                '--write --verify "python train.py", or record one with `shardlift run --record '
                "run.json PROGRAM` and add --facts run.json"
            )
        if goal is Goal.JIT and not diff and self.verify is None:
            raise click.UsageError(
                "--to jit adds numbers in another order, and is written only where a run shows "
                'that they are equal to rounding: add --verify "COMMAND"'
            )
