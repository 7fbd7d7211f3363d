"""Annotations for a GitHub workflow."""

from shardlift._escape import escape_control
from shardlift.check.rules import all_rules
from shardlift.cli.check_report import Report
from shardlift.cli.formats.places import mark
from shardlift.source.model import Finding, Level

_LEVELS = {Level.BROKEN: "error", Level.SLOW: "warning", Level.NOTE: "notice"}


def render(report: Report) -> str:
    """One workflow command per finding, and one per file that could not be read."""
    lines = [_line(finding) for finding in report.findings]
    for file in report.unreadable:
        lines.append(
            f"::error file={_value(file.path)}::{_text(f'not looked at: {file.unreadable}')}"
        )
    return "\n".join(lines)


def _line(finding: Finding) -> str:
    rule, span = all_rules()[finding.code], finding.span
    place = f"file={_value(finding.path)}"
    if span.cell is None:
        place += f",line={span.line},col={span.column + 1}"
        place += f",endLine={span.end_line},endColumn={span.end_column + 1}"
    where = f"cell {span.cell}, line {span.line}: " if span.cell is not None else ""
    title = _value(f"{finding.code} {rule.name}")
    message = _text(f"{where}{finding.message}. {rule.advice} {mark(finding)}")
    return f"::{_LEVELS[rule.level]} {place},title={title}::{message}"


def _text(text: str) -> str:
    return escape_control(_encode(text, "%\r\n"))


def _value(text: str) -> str:
    return escape_control(_encode(text, "%\r\n:,"))


def _encode(text: str, characters: str) -> str:
    return "".join(f"%{ord(c):02X}" if c in characters else c for c in text)
