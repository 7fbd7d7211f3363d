"""The two formats for people: one line per finding, or the source with the span underlined."""

from collections.abc import Iterable

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from shardlift._escape import CONTROL, escape_control
from shardlift.check.page import MEANING
from shardlift.check.rules import all_rules
from shardlift.cli.check_report import Report
from shardlift.cli.formats.places import mark, place
from shardlift.source.model import Finding, Level, Rewriter

COLOURS = {Level.BROKEN: "red", Level.SLOW: "yellow", Level.NOTE: "cyan"}


def concise(report: Report, console: Console) -> None:
    """One line per finding: `path:line:column: CODE [fix] message`."""
    for finding in report.findings:
        line = Text()
        line.append(escape_control(place(finding.path, finding.span)), style="bold")
        line.append(": ")
        line.append(finding.code, style=COLOURS[all_rules()[finding.code].level])
        line.append(f" {mark(finding)} {escape_control(finding.message)}")
        if finding.rewriter is Rewriter.HAND:
            line.append(f". {all_rules()[finding.code].advice}", style="dim")
        console.print(line, soft_wrap=True)


def full(report: Report, console: Console) -> None:
    """Message, place, source with the span underlined, and advice."""
    for finding in report.findings:
        rule = all_rules()[finding.code]
        colour = COLOURS[rule.level]
        head = Text()
        head.append(finding.code, style=colour)
        head.append(f" {rule.level.value} {mark(finding)}", style=colour)
        head.append(f"  {escape_control(finding.message)}", style="bold")
        console.print(head)
        console.print(
            Text(f"  --> {escape_control(place(finding.path, finding.span))}", style="dim"),
            soft_wrap=True,
        )
        for line in _frame(finding, colour, console.width):
            console.print(line, no_wrap=True, overflow="crop", crop=True)
        console.print(Padding(Text(rule.advice), (0, 0, 0, 2), expand=False))
        console.print()


def _frame(finding: Finding, colour: str, width: int) -> Iterable[Text]:
    span = finding.span
    gutter = max(4, len(str(span.line)) + 1)
    # Every character takes one column, so that the marks stand below it; a tab becomes a space.
    source = CONTROL.sub("\N{REPLACEMENT CHARACTER}", finding.text.expandtabs(1).rstrip())
    last = span.end_column if span.end_line == span.line else len(source)
    # Cut a long line on the left if the span would not be visible.
    room = max(20, width - gutter - 3)
    cut = max(0, min(span.column - 8, len(source) - room)) if len(source) > room else 0
    yield Text.assemble((f"{span.line:>{gutter}} | ", "dim"), source[cut : cut + room])
    length = max(1, min(last - cut, room) - (span.column - cut))
    mark = " " * (span.column - cut) + "^" * length
    yield Text.assemble((" " * gutter + " | ", "dim"), (mark, colour))


def summary(report: Report, console: Console) -> None:
    """Findings per level, what was covered, and the next command to type."""
    levels = report.levels
    for level in Level:
        if levels[level]:
            line = Text(f"{levels[level]:>6} ")
            line.append(f"{level.value:<8}", style=COLOURS[level])
            line.append(MEANING[level], style="dim")
            console.print(line)
    for sentence in report.covered():
        console.print(Text(escape_control(sentence)), soft_wrap=sentence.startswith("  "))
    style = "bold" if levels else "green"
    console.print(Text(escape_control(report.closing()), style=style))
