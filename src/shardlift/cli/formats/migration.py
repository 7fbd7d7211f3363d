"""A migration as JSON, and what a command showed of its sites, as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from shardlift.cli.leftovers import Leftover
from shardlift.rewrite.changes import Change
from shardlift.rewrite.results import FileResult, Migration, ProcessChoice
from shardlift.source.model import Version
from shardlift.source.target import Pin

if TYPE_CHECKING:
    from shardlift.cli.verified_migration import PlaceResult, VerifiedMigration

WORDS = ("verified", "not reached", "not compared", "partly compared", "backed out")


def results(verified: VerifiedMigration, command: str, verbose: bool) -> list[str]:
    """Lines on what the command showed; what was backed out is listed as refused already."""
    shown = [result for result in verified.results if result.word != "backed out"]
    lines = [_line(result) for result in shown if verbose or result.word != "verified"]
    counts = [f"{verified.count(word)} {word}" for word in WORDS if verified.count(word)]
    runs = f"{verified.runs} run{'s' * (verified.runs != 1)}"
    said = f"`{command}`: {', '.join(counts) or 'nothing to verify'}, after {runs}."
    return [*lines, *verified.notes, said]


def _line(result: PlaceResult) -> str:
    path, line, column, _ = result.change
    place = f"{path}:{line}:{column + 1}" if line else path
    return f"{place}: {result.word}: {result.why}"


def processes(choice: ProcessChoice, quote: Callable[[str], str] = str) -> str:
    """For how many processes sites are written, and by which line that was decided."""
    number = "many processes" if choice.many else "one process"
    written = f"For {number}, sites keep jax.pmap" if choice.kept else f"Written for {number}"
    if choice.asked:
        return f"{written}, as --processes says"
    if (line := choice.line) is None:
        return f"{written}: no line joins a job of several or divides work between them"
    return f"{written}, because of {quote(f'{line.path}:{line.line}')}: {quote(line.text)}"


WAYS_ON = (
    "jax.pmap takes 2 to 2.8 times as long per call there as shardlift.pmap. Two ways on: "
    "--to global --facts RUN.json, for arrays of all processes; "
    "--to shim, for shardlift.pmap"
)


def machine(
    migration: Migration,
    target: Version,
    status: int,
    written: bool,
    verified: VerifiedMigration | None,
) -> dict[str, Any]:
    """All of it as a tree for JSON."""
    changed = {file.path for file in migration.changed}
    tree: dict[str, Any] = {
        "status": status,
        "written": written,
        "target_jax": ".".join(map(str, target)),
        "files": [_file(file, changed) for file in (*migration.helper_modules, *migration.files)],
        "unreadable": [{"path": path, "reason": why} for path, why in migration.unreadable],
    }
    if verified is not None:
        tree["verify"] = _verify(verified)
    return tree


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


def with_rest(
    tree: dict[str, Any], raised: Sequence[tuple[Pin, str]], leftovers: Sequence[Leftover]
) -> str:
    """The tree, with what is left for a person to do, as JSON."""
    tree["requirements"] = [
        {"path": pin.path, "line": pin.line, "text": pin.text, "new": new} for pin, new in raised
    ]
    tree["leftovers"] = [asdict(leftover) for leftover in leftovers]
    return json.dumps(tree, indent=2) + "\n"


def _file(file: FileResult, changed: set[str]) -> dict[str, Any]:
    return {
        "path": file.path,
        "changed": file.path in changed,
        "rewritten": [{**_place(one), "text": one.text} for one in file.rewritten],
        "refused": [{**_place(one), "reason": one.reason} for one in file.refused],
        "skipped": [{**_place(one), "reason": one.reason} for one in file.skipped],
    }


def _place(change: Change) -> dict[str, Any]:
    span = change.span
    return {"line": span.line, "column": span.column + 1, "cell": span.cell}


def _result(result: PlaceResult) -> dict[str, Any]:
    path, line, column, _ = result.change
    place = {"path": path, "line": line, "column": column + 1}
    return {**place, "verdict": result.word, "why": result.why}
