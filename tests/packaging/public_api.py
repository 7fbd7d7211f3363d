"""Everything that the policy covers, as text: ``python -m tests.packaging.public_api`` prints it.

`docs/public_api.txt` is that text. A test fails when the two differ, so that no name, parameter or
option appears, changes or goes without somebody having read so in a diff.
"""

import importlib
import inspect
from collections.abc import Iterator

import click

from shardlift.cli import COMMANDS, main

MODULES = ("shardlift", "shardlift.arrays", "shardlift.facts", "shardlift.testing")
# What `shardlift.mapping` tells a recorder: between the two, and for nobody else.
INSIDE = {"Recorder": {"fitted", "read", "used"}}
HEAD = """\
# What the policy (policy.md) covers: names with their parameters, commands with their options.
# Written by `python -m tests.packaging.public_api > docs/public_api.txt`.
"""


def lines() -> Iterator[str]:
    """All of it, sorted within each part."""
    for module in MODULES:
        yield from sorted(_names(module))
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        yield from _command(command)


def _names(module: str) -> Iterator[str]:
    found = importlib.import_module(module)
    for name in found.__all__:
        value = getattr(found, name)
        if inspect.ismodule(value):  # `shardlift.legacy` is a function, and a module that is called
            value = getattr(value, name)
        if inspect.isclass(value):
            yield f"{module}.{name}"
            for member in _members(value) - INSIDE.get(name, set()):
                yield f"{module}.{name}.{member}{_parameters(getattr(value, member, None))}"
        else:
            yield f"{module}.{name}{_parameters(value)}"


def _members(value: type) -> set[str]:
    """What a class has of our own making: fields and methods."""
    ours = [base for base in value.__mro__ if base.__module__.startswith("shardlift")]
    found = {name for base in ours for name in (*vars(base), *inspect.get_annotations(base))}
    return {name for name in found if not name.startswith("_")}


def _parameters(value: object) -> str:
    """Names and kinds, and which may be left out; what a default is may change."""
    if not inspect.isroutine(value):
        return ""
    parts, star = [], False
    for p in inspect.signature(value).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
        star = star or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        parts.append(f"{mark}{p.name}{'' if p.default is p.empty else '=…'}")
    return f"({', '.join(parts)})"


def _command(command: click.Command) -> Iterator[str]:
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            names = "/".join((*parameter.opts, *parameter.secondary_opts))
        else:
            names = (parameter.name or "").upper()
        choices = getattr(parameter.type, "choices", ())
        values = f" {'|'.join(map(str, choices))}" if choices else ""
        yield f"$ shardlift {command.name} {names}{values}"
    if not command.params:
        yield f"$ shardlift {command.name}"


def text() -> str:
    """The file."""
    return HEAD + "\n".join(lines()) + "\n"


if __name__ == "__main__":
    print(text(), end="")
