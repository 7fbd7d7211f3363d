"""The report of `check` as JSON."""

from shardlift.check.rules import all_rules
from shardlift.cli.check_report import Report
from shardlift.cli.document import Item, document, item, place
from shardlift.source.model import Finding, dotted


def render(report: Report, status: int) -> str:
    """The document of `check`: every finding is left to be done."""
    unreadable = [item("unreadable", f.unreadable or "", f.path) for f in report.unreadable]
    broken = [
        item("not-python", "not Python", file.path, cell=cell)
        for file in report.broken_cells
        for cell in file.broken_cells
    ]
    return document(
        "check",
        status,
        left=[*map(_finding, report.findings), *unreadable, *broken],
        next_commands=report.next_commands(),
        target_jax=dotted(report.target),
        files=len(report.files),
        read_in_full=sum(file.parsed for file in report.files),
        pmap_sites=sum(file.sites for file in report.files),
        suppressed=sum(file.suppressed for file in report.files),
        in_baseline=report.known,
        fixed_since_baseline=report.fixed,
    )


def _finding(finding: Finding) -> Item:
    rule = all_rules()[finding.code]
    return item(
        finding.code,
        finding.message,
        finding.path,
        finding.span,
        level=rule.level.value,
        name=rule.name,
        advice=rule.advice,
        reference=rule.reference,
        rewriter=finding.rewriter.value,
        edits=[{**place(edit.span), "replacement": edit.replacement} for edit in finding.edits],
    )
