"""The pages of the commands, one per command: what `--help` says, and a recorded picture."""

from __future__ import annotations

import textwrap
from pathlib import Path

import click

from shardlift.cli import COMMANDS, main

PICTURES = Path(__file__).parent.parent / "_static" / "terminal"  # see terminal_pictures.py


def pages() -> dict[str, str]:
    """Text by file name."""
    context = click.Context(main, info_name="shardlift")
    commands = {name: main.get_command(context, name) for name in COMMANDS}
    made = {
        f"{name}.md": _page(name, command)
        for name, command in commands.items()
        if command is not None and not command.hidden
    }
    rows = [
        f"| [`{name}`]({name}.md) | {command.get_short_help_str(200)} |"
        for name, command in commands.items()
        if command is not None and not command.hidden
    ]
    toctree = "\n".join(file.removesuffix(".md") for file in made)
    index = [
        "# Commands",
        "`shardlift COMMAND --help` says the same in the terminal. Exit status: 0, fine; 1, "
        "findings or differences; 2, could not do it. `run` ends with the status of the program.",
        "\n".join(["| command | does |", "|---|---|", *rows]),
        f"```{{toctree}}\n:hidden:\n\n{toctree}\n```",
    ]
    return {"index.md": "\n\n".join(index) + "\n", **made}


def _page(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"shardlift {name}")
    usage = command.get_usage(context).removeprefix("Usage: ")
    parts = [f"# shardlift {name}", f"```text\n{' '.join(usage.split())}\n```", _text(command.help)]
    options = [
        record
        for parameter in command.get_params(context)
        if isinstance(parameter, click.Option)
        and (record := parameter.get_help_record(context)) is not None
    ]
    if (PICTURES / f"{name}.svg").exists():
        parts.append(f"![`shardlift {name}` in a terminal](../_static/terminal/{name}.svg)")
    if options:
        rows = [f"| `{_cell(left)}` | {_cell(_code(right))} |" for left, right in options]
        parts += ["## Options", "\n".join(["| option | |", "|---|---|", *rows])]
    if command.epilog:
        example = command.epilog.removeprefix("Example: ")
        parts.append(f"```sh\n{example}\n```" if example != command.epilog else _text(example))
    return "\n\n".join(part for part in parts if part) + "\n"


def _text(text: str | None) -> str:
    """Help as Markdown; what click keeps as it is (a paragraph after \\b) is a block."""
    if not text:
        return ""
    made = []
    for part in textwrap.dedent(text.partition("\f")[0]).strip().split("\n\n"):
        lines = part.splitlines()
        if lines[0].strip() == "\b":
            made.append("```text\n" + textwrap.dedent("\n".join(lines[1:])) + "\n```")
        else:
            made.append(_code(" ".join(part.split())))
    return "\n\n".join(made)


def _code(text: str) -> str:
    return text.replace("<", "\\<").replace("*", "\\*")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
