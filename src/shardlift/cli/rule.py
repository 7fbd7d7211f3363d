"""`shardlift rule`: explain one rule with what `fix` or `migrate` writes, or list all of them."""

import re

import click
from rich.table import Table
from rich.text import Text

from shardlift.check.engine import check_text
from shardlift.check.page import block, page
from shardlift.check.rules import all_rules
from shardlift.cli.console import console as make_console
from shardlift.cli.formats.terminal import COLOURS
from shardlift.cli.stop import stop
from shardlift.rewrite.engine import migrate
from shardlift.rewrite.goal import Goal
from shardlift.source.model import Rule
from shardlift.source.settings import Settings

_PATH = "/p/example.py"
_LONGEST = 45  # lines of an example that a page shows
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


@click.command("rule", epilog="Example: shardlift rule SL402")
@click.argument(
    "code",
    required=False,
    shell_complete=lambda _, __, typed: [c for c in all_rules() if c.startswith(typed.upper())],
)
def rule_command(code: str | None) -> None:
    """Explain the rule CODE with examples, or list all rules.

    The beginning of a code lists the rules that start with it: `shardlift rule SL3`.
    """
    rules = all_rules()
    wanted = "SL" if code is None else code.strip().upper()
    matching = {
        key: rule
        for key, rule in rules.items()
        if key.startswith(wanted) or key.removeprefix("SL").startswith(wanted)
    }
    if not wanted or not matching:
        stop(f"no rule {code}; `shardlift rule` lists all rules")
    if len(matching) == 1:
        (rule,) = matching.values()
        _show(page(rule, use_instead(rule)))
    else:
        _list(matching)


def _show(text: str) -> None:
    """Markdown: laid out on a terminal, unchanged elsewhere."""
    console = make_console(piped=80)
    if console.is_terminal:
        from rich.markdown import Markdown  # it loads a parser

        console.print(Markdown(text, code_theme="ansi_dark"))
    else:
        click.echo(text, nl=False)


def _list(rules: dict[str, Rule]) -> None:
    console = make_console(piped=80)
    family = ""
    table = Table.grid(padding=(0, 1))
    for rule in rules.values():
        if rule.code[2] != family:
            if family:
                table.add_row("", "", "")
            family = rule.code[2]
            table.add_row(Text(f"{family}xx", style="bold"), "", Text(FAMILIES[family], "bold"))
        level = Text(rule.level.value, style=COLOURS[rule.level])
        table.add_row(rule.code, level, rule.summary)
    console.print(table)
    console.print()
    console.print("`shardlift rule CODE` explains a rule with examples.")


def use_instead(rule: Rule) -> str:
    """Markdown with the first example that a command rewrites; empty if there is none."""
    if not rule.rewritten_as:
        return ""
    settings = Settings(*rule.holds_for) if rule.holds_for else Settings()
    for goal, command in ((Goal.FIX, "fix"), (Goal.SHARD_MAP, "migrate")):
        for example in rule.bad:
            text = re.sub(r"  # SL\d+.*", "", example) if isinstance(example, str) else ""
            new = _rewritten(text, goal, settings)
            is_short = new.count("\n") < _LONGEST
            left = {finding.code for finding in check_text(new, settings=settings).findings}
            if new != text and is_short and rule.code not in left:
                blocks = f"{block(text.strip())}\n\nthis:\n\n{block(new.strip())}"
                return f"`shardlift {command}` makes of this\n\n{blocks}"
    return ""


def _rewritten(text: str, goal: Goal, settings: Settings) -> str:
    content = text.encode()
    result = migrate(
        [_PATH], lambda _: content, {"/p", _PATH}.__contains__, goal, settings=settings
    )
    return next((file.after for file in result.changed if file.path == _PATH), text)
