"""One file, pass by pass: what the steps rewrite of it, until none has anything left to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from shardlift.migrate import output_reads, placement, removed_names, shim, sites
from shardlift.migrate.rewrite import Goal, Step
from shardlift.source.decisions import Where
from shardlift.source.edits import apply_edits, origin
from shardlift.source.file import File
from shardlift.source.model import Edit, Kind, Match, Span
from shardlift.source.text import Source

# What is done to each file, in this order; where two want the same text the outer one has it,
# and the inner one its turn in the next pass.
STEPS: tuple[Step, ...] = (
    sites.rewrite,
    shim.rewrite,
    placement.rewrite,
    output_reads.rewrite,
    removed_names.rewrite,
)
PASSES = 5


@dataclass(frozen=True)
class Place:
    """A place in a file, as it was before, and what is said about it."""

    span: Span
    kind: Kind
    text: str


@dataclass(frozen=True)
class Start:
    """A file after what was done to all files together, and what was said of it."""

    before: Source
    after: Source
    edits: tuple[Edit, ...] = ()
    rewrites: tuple[Match, ...] = ()
    places: tuple[Place, ...] = ()
    kept: tuple[Place, ...] = ()


def rewritten(
    file: File, goal: Goal, start: Start, left: Mapping[Where, str]
) -> tuple[str, list[Match], tuple[Place, ...], tuple[Place, ...]]:
    """The text after all steps, pass by pass until none has anything left to do."""
    text = file.source.text
    rewrites: list[Match] = []
    places: list[Place] = []
    refused: tuple[Place, ...] = ()
    passes: list[tuple[str, list[Edit]]] = []
    if start.edits:
        passes.append((start.before.text, list(start.edits)))
    current = file

    def back(span: Span) -> tuple[int, int, bool]:
        """Where a place of the current text comes from, and whether it is just that text."""
        line, column, exact = span.line, span.column, True
        for before, edits in reversed(passes):
            line, column, same = origin(before, edits, line, column)
            exact = exact and same
        return line, column, exact

    def where(span: Span) -> Where | None:
        line, column, exact = back(span)
        return Where(file.path, line, column) if exact else None

    for number in range(PASSES):
        chosen, refusals = one_pass(current, goal, where, left)
        if not number:
            refused = tuple(
                Place(_moved(file.span(r.node), back), r.kind, r.message) for r in refusals
            )
        if not chosen:
            break
        rewrites += chosen
        places += [_place(current, rewrite, back) for rewrite in chosen]
        edits = [with_line_ends(edit, text) for r in chosen for edit in r.edits]
        passes.append((text, edits))
        text = apply_edits(text, edits)
        current = File(Source(file.path, text, file.source.cells), file.project)
    return text, rewrites, tuple(places), refused


def _place(file: File, rewrite: Match, back: Callable[[Span], tuple[int, int, bool]]) -> Place:
    span = _moved(file.span(rewrite.node), back)
    return Place(span, rewrite.kind, file.brief(rewrite.node))


def _moved(span: Span, back: Callable[[Span], tuple[int, int, bool]]) -> Span:
    """Where a place was in the text before."""
    line, column, _ = back(span)
    last = max(line, line + span.end_line - span.line)
    return replace(span, line=line, column=column, end_line=last)


def one_pass(
    file: File, goal: Goal, where: Callable[[Span], Where | None], left: Mapping[Where, str]
) -> tuple[list[Match], list[Match]]:
    """What is rewritten and what is not; as was decided of single places."""
    wanted: list[Match] = []
    refused: list[Match] = []
    for step in STEPS:
        for result in step(file, goal):
            place = where(file.span(result.node)) if left else None
            if not result.edits:
                refused.append(result)
            elif place is not None and place in left:
                refused.append(Match(result.node, left[place], kind=result.kind))
            else:
                wanted.append(result)
    return _without_overlaps(file, wanted), refused


def with_line_ends(edit: Edit, text: str) -> Edit:
    """An edit whose lines end as those of the text do."""
    if "\n" not in edit.replacement or "\r\n" not in text:
        return edit
    return replace(edit, replacement=re.sub(r"(?<!\r)\n", "\r\n", edit.replacement))


def _without_overlaps(file: File, rewrites: list[Match]) -> list[Match]:
    """Those whose edits do not touch; of two that do, the one that starts first, or is wider."""
    chosen: list[Match] = []
    taken: list[Span] = []

    def order(rewrite: Match) -> tuple[int, int, int, int]:
        span = file.span(rewrite.node)
        return span.line, span.column, -span.end_line, -span.end_column

    for rewrite in sorted(rewrites, key=order):
        spans = [edit.span for edit in rewrite.edits]
        if not any(_overlap(one, other) for one in spans for other in taken):
            chosen.append(rewrite)
            taken += spans
    return chosen


def _overlap(one: Span, other: Span) -> bool:
    first = (one.line, one.column), (one.end_line, one.end_column)
    second = (other.line, other.column), (other.end_line, other.end_column)
    return one.cell == other.cell and first[0] < second[1] and second[0] < first[1]
