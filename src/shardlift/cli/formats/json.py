"""The report of `check` as JSON."""

from __future__ import annotations

import json
from typing import Any

from shardlift.check.rules import all_rules
from shardlift.cli.check_report import Report
from shardlift.source.model import Edit, Finding, Span


def render(report: Report) -> str:
    """One JSON document; `version` is the version of its schema."""
    document = {
        "version": 1,
        "target_jax": ".".join(map(str, report.target)),
        "findings": [_finding(finding) for finding in report.findings],
        "not_looked_at": [
            {"path": file.path, "reason": file.unreadable} for file in report.unreadable
        ],
        "broken_cells": [
            {"path": file.path, "cells": list(file.broken_cells)} for file in report.broken_cells
        ],
        "files": len(report.files),
        "read_in_full": sum(file.parsed for file in report.files),
        "pmap_sites": sum(file.sites for file in report.files),
        "suppressed": sum(file.suppressed for file in report.files),
        "in_baseline": report.known,
        "fixed_since_baseline": report.fixed,
    }
    return json.dumps(document, indent=2)


def _finding(finding: Finding) -> dict[str, Any]:
    rule = all_rules()[finding.code]
    return {
        "code": finding.code,
        "name": rule.name,
        "level": rule.level.value,
        "path": finding.path,
        **_span(finding.span),
        "message": finding.message,
        "advice": rule.advice,
        "reference": rule.reference,
        "edits": [_edit(edit) for edit in finding.edits],
    }


def _edit(edit: Edit) -> dict[str, Any]:
    return {**_span(edit.span), "replacement": edit.replacement, "applicability": "safe"}


def _span(span: Span) -> dict[str, Any]:
    return {
        "cell": span.cell,
        "line": span.line,
        "column": span.column + 1,
        "end_line": span.end_line,
        "end_column": span.end_column + 1,
    }
