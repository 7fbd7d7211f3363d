"""A migration as JSON, and what a command showed of its sites, as text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from shardlift.cli.verified import digests_of
from shardlift.migrate.changes import Change
from shardlift.migrate.leftovers import Leftover
from shardlift.migrate.results import FileResult, Migration
from shardlift.source.model import Version
from shardlift.source.target import Pin

if TYPE_CHECKING:
    from shardlift.cli.verified_migration import Fate, Proved

WORDS = ("verified", "not reached", "not compared", "partly compared", "backed out")


def fates(proved: Proved, command: str, verbose: bool) -> list[str]:
    """Lines on what the command showed; what was backed out is listed as refused already."""
    shown = [fate for fate in proved.fates if fate.word != "backed out"]
    lines = [_line(fate) for fate in shown if verbose or fate.word != "verified"]
    counts = [f"{proved.count(word)} {word}" for word in WORDS if proved.count(word)]
    runs = f"{proved.runs} run{'s' * (proved.runs != 1)}"
    strict = sum(fate.form == "strict" for fate in proved.fates)
    checked = f"; {strict} with check_vma=True" if strict else ""
    said = f"`{command}`: {', '.join(counts) or 'nothing to verify'}{checked}, after {runs}."
    return [*lines, *proved.notes, *map(str, proved.speeds), said]


def _line(fate: Fate) -> str:
    path, line, column, _ = fate.change
    place = f"{path}:{line}:{column + 1}" if line else path
    form = " (check_vma=True)" if fate.form == "strict" else ""
    return f"{place}: {fate.word}{form}: {fate.why}"


def machine(
    migration: Migration,
    target: Version,
    status: int,
    written: bool,
    proved: Proved | None,
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
    if proved is not None:
        tree["verify"] = _verify(proved)
    return tree


def _verify(proved: Proved) -> dict[str, Any]:
    """What was proved; `sites` and `sources` as in the JSON of `shardlift verify`."""
    from shardlift.verify.verdict_text import site_trees

    sites = proved.outcome.sites if proved.outcome else ()
    return {
        "runs": proved.runs,
        "places": [_fate(fate) for fate in proved.fates],
        "notes": list(proved.notes),
        "sites": site_trees(proved.outcome) if proved.outcome else [],
        "speed": [speed._asdict() for speed in proved.speeds],
        "sources": digests_of(site.after.file for site in sites if site.after is not None),
    }


def with_rest(
    tree: dict[str, Any], raised: Sequence[tuple[Pin, str]], leftovers: Sequence[Leftover]
) -> str:
    """The tree, with what is left for a person to do, as JSON."""
    tree["requirements"] = [
        {"path": pin.path, "line": pin.line, "text": pin.text, "new": new} for pin, new in raised
    ]
    tree["leftovers"] = [asdict(leftover) for leftover in leftovers]
    return json.dumps(tree, indent=2, ensure_ascii=False) + "\n"


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


def _fate(fate: Fate) -> dict[str, Any]:
    path, line, column, _ = fate.change
    place = {"path": path, "line": line, "column": column + 1}
    return {**place, "verdict": fate.word, "why": fate.why, "form": fate.form or "plain"}
