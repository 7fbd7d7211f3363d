"""`shardlift rule`: a rule with its reference and its examples, or the list of them."""

from __future__ import annotations

import sys

import click
from rich.table import Table
from rich.text import Text

from shardlift._escape import plain
from shardlift.check.page import page
from shardlift.check.rules import all_rules
from shardlift.cli.console import console as make_console
from shardlift.cli.formats.terminal import COLOURS
from shardlift.source.model import Rule

FAMILIES = {
    "0": "the tool itself",
    "1": "removed or renamed names and flags",
    "2": "pmap sites",
    "3": "placing data",
    "4": "reading outputs",
    "5": "gradients and replication",
    "6": "many processes",
    "7": "meshes and shard_map pitfalls",
}


@click.command(epilog="Example: shardlift rule SL402")
@click.argument(
    "code",
    required=False,
    shell_complete=lambda _, __, begun: [c for c in all_rules() if c.startswith(begun.upper())],
)
@click.option("--quiet", "-q", is_flag=True, help="Codes and names only.")
@click.option("--verbose", "-v", is_flag=True, help="Every rule in full.")
def rule(code: str | None, quiet: bool, verbose: bool) -> None:
    """Explain a rule with its examples; without CODE, list them all.

    The first letters of a code list the rules that begin with them: `shardlift rule SL3`.
    """
    rules = all_rules()
    if code is None:
        if verbose:
            click.echo("\n".join(page(found) for found in rules.values()))
        else:
            _list(rules, quiet)
        return
    wanted = code.strip().upper()
    found = {key: one for key, one in rules.items() if key.removeprefix("SL").startswith(wanted)}
    found |= {key: one for key, one in rules.items() if key.startswith(wanted)}
    if not wanted or not found:
        click.echo(f"shardlift rule: no rule {plain(code)}; `shardlift rule` lists them", err=True)
        sys.exit(2)
    if len(found) == 1:
        click.echo(page(next(iter(found.values()))), nl=False)
    else:
        _list(dict(sorted(found.items())), quiet)


def _list(rules: dict[str, Rule], quiet: bool) -> None:
    if quiet:
        for found in rules.values():
            click.echo(f"{found.code} {found.name}")
        return
    console = make_console(piped=80)
    family = ""
    table = Table.grid(padding=(0, 1))
    for found in rules.values():
        if found.code[2] != family:
            if family:
                table.add_row("", "", "")
            family = found.code[2]
            table.add_row(Text(f"{family}xx", style="bold"), "", Text(FAMILIES[family], "bold"))
        effect = Text(found.effect.value, style=COLOURS[found.effect])
        table.add_row(found.code, effect, found.summary)
    console.print(table)
    console.print()
    console.print("`shardlift rule CODE` explains one, with its examples.")
