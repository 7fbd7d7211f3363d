"""The options of `fix` and `migrate` about running a program, and what they need."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
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
_OPTIONS = (
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


def verify_options(command: Function) -> Function:
    """Give a command these options, as keyword arguments."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True)
class VerifyOptions:
    """What was given for these options."""

    verify: str | None
    tolerance: Mapping[str, float] | None
    devices: int | None
    processes: int | None

    @classmethod
    def take(cls, asked: dict[str, Any]) -> VerifyOptions:
        """These options, out of all the keyword arguments of a command."""
        return cls(**{field.name: asked.pop(field.name) for field in fields(cls)})

    @property
    def many_processes(self) -> bool | None:
        """Whether to write for many processes; None: as the code says."""
        return None if self.processes is None else self.processes > 1

    def check(self, diff: bool, goal: Goal, facts: Sequence[str]) -> None:
        """Raise a usage error where options need each other."""
        if self.verify is not None and diff:
            raise click.UsageError(
                "--verify runs the new text, so it has to be written: add --write"
            )
        for name in ("tolerance", "devices"):
            if getattr(self, name) and self.verify is None:
                raise click.UsageError(f'--{name} needs --verify "COMMAND": a run that shows it')
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
