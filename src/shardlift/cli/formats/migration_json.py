"""A migration as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from shardlift.cli.document import Item, document, item
from shardlift.cli.formats.diff import diff_of
from shardlift.cli.formats.migration import RewriteReport, find_leftovers
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.results import FileResult
from shardlift.source.model import dotted

if TYPE_CHECKING:
    from shardlift.cli.verified_migration import PlaceResult, VerifiedMigration


def render(report: RewriteReport, paths: Sequence[str], status: int) -> str:
    """The document of `fix` or `migrate`."""
    migration, verified = report.migration, report.verified
    files = (*migration.helper_modules, *migration.files)
    more: dict[str, Any] = {"verify": _verify(verified)} if verified is not None else {}
    more["does_not_run"] = [
        {"name": missing.row.name, "paths": missing.paths, "answer": missing.row.answer}
        for missing in migration.missing
    ]
    return document(
        report.tool.split()[1],
        status,
        done=[item(c.kind, c.text, f.path, c.span) for f in files for c in f.rewritten],
        left=_left(report, files),
        next_commands=_next(report, paths),
        written=report.written,
        target_jax=dotted(report.target),
        files=[{"path": f.path, "diff": "".join(diff_of(f))} for f in migration.changed],
        **more,
    )


def _left(report: RewriteReport, files: Sequence[FileResult]) -> Iterator[Item]:
    for file in files:
        yield from (item("refused", c.reason, file.path, c.span) for c in file.refused)
        yield from (item("guarded", c.reason, file.path, c.span) for c in file.skipped)
    yield from (item("unreadable", why, path) for path, why in report.migration.unreadable)
    for raised in report.requirements.raised:
        if raised.why_left:
            pin, why = raised.pin, raised.why_left
            more = {"line": raised.line, "suggestion": raised.new}
            yield item("requirement", f"{pin.text}: {why}", pin.path, None, **more)
    for path, line, old in find_leftovers(report.migration):
        yield item("stale-text", old, path, line=line)


def _next(report: RewriteReport, paths: Sequence[str]) -> Iterator[str]:
    if report.written or not report.migration.changed:
        yield f"shardlift check {shlex.join(paths)}"
        return
    goal = "" if report.goal in (Goal.FIX, Goal.SHARD_MAP) else f" --to {report.goal}"
    yield f"{report.tool}{goal} {shlex.join(paths)} --write"


def _verify(verified: VerifiedMigration) -> dict[str, Any]:
    """What was verified; `sites` as in the JSON of `shardlift verify`."""
    from shardlift.verify.verdict_text import site_trees

    outcome = verified.outcome
    return {
        "runs": verified.runs,
        "places": [_result(result) for result in verified.results],
        "notes": list(verified.notes),
        "sites": site_trees(outcome) if outcome else [],
    }


def _result(result: PlaceResult) -> dict[str, Any]:
    path, line, column, _ = result.change
    where = {"path": path, "line": line, "column": column + 1}
    return {**where, "verdict": result.word, "why": result.why}
