"""SARIF 2.1.0, for code scanning."""

import json
import os
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from shardlift import __version__
from shardlift.check.rules import all_rules
from shardlift.cli.check_report import Report
from shardlift.cli.formats.places import mark
from shardlift.source.model import Finding, Level, Rule

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Level.BROKEN: "error", Level.SLOW: "warning", Level.NOTE: "note"}


def render(report: Report) -> str:
    """One run with its rules, its results and the files that could not be read."""
    used = sorted({finding.code for finding in report.findings})
    places = {code: number for number, code in enumerate(used)}
    driver = {
        "name": "shardlift",
        "version": __version__,
        "rules": [_rule(all_rules()[code]) for code in used],
    }
    invocation = {
        "executionSuccessful": not report.unreadable,
        "toolExecutionNotifications": [
            {
                "level": "error",
                "message": {"text": f"not looked at: {file.unreadable}"},
                "locations": [{"physicalLocation": {"artifactLocation": _uri(file.path)}}],
            }
            for file in report.unreadable
        ],
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, places[finding.code]) for finding in report.findings],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.explain.strip()},
        "help": {"text": rule.advice},
        "helpUri": rule.reference,
        "defaultConfiguration": {"level": _LEVELS[rule.level]},
        "properties": {"level": rule.level.value},
    }


def _result(finding: Finding, place: int) -> dict[str, Any]:
    rule, span = all_rules()[finding.code], finding.span
    physical: dict[str, Any] = {"artifactLocation": _uri(finding.path)}
    location: dict[str, Any] = {"physicalLocation": physical}
    if span.cell is None:
        physical["region"] = {
            "startLine": span.line,
            "startColumn": span.column + 1,
            "endLine": span.end_line,
            "endColumn": span.end_column + 1,
        }
    else:
        # A line of a cell is not a line of the .ipynb file, so a region would mislead a viewer.
        location["logicalLocations"] = [{"name": f"cell {span.cell}, line {span.line}"}]
    return {
        "ruleId": finding.code,
        "ruleIndex": place,
        "level": _LEVELS[rule.level],
        "message": {"text": f"{finding.message}. {rule.advice} {mark(finding)}"},
        "locations": [location],
        "properties": {"rewriter": finding.rewriter.value},
    }


def _uri(path: str) -> dict[str, str]:
    pure = PurePath(path)
    return {"uri": pure.as_uri() if pure.is_absolute() else quote(os.fsencode(pure.as_posix()))}
