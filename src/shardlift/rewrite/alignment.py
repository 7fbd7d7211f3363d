"""The layout of a call whose name changes: lines aligned with its first argument stay so."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from shardlift.source.file import File
from shardlift.source.model import Edit, Match, Span


def keep_aligned(file: File, matches: Iterable[Match]) -> list[Match]:
    """The matches, those that make the name of a call longer or shorter with more edits."""
    calls: dict[tuple[int | None, int], list[ast.Call]] = defaultdict(list)
    for call in file.index.nodes(ast.Call):
        if _is_aligned(call):
            span = file.span(call.func)
            calls[span.cell, span.end_line].append(call)
    return [_kept(file, match, calls) for match in matches]


def _is_aligned(call: ast.Call) -> bool:
    """Whether arguments stand on the line of the bracket, and on lines below."""
    line = call.func.end_lineno
    first = min([*call.args, *(k.value for k in call.keywords)], key=_line, default=None)
    return first is not None and first.lineno == line and call.end_lineno != line


def _line(node: ast.expr) -> int:
    return node.lineno


def _kept(file: File, match: Match, calls: dict[tuple[int | None, int], list[ast.Call]]) -> Match:
    spans = [edit.span for edit in match.edits]
    if any(s.line != s.end_line for s in spans) or any("\n" in e.replacement for e in match.edits):
        return match
    moved: list[Edit] = []
    for call in {c for s in spans for c in calls.get((s.cell, s.line), ())}:
        name = file.span(call.func)
        longer = sum(_growth(edit) for edit in match.edits if _is_in(edit.span, name))
        if longer:
            moved += _moves(file, call, longer)
    lines = {(edit.span.cell, edit.span.line) for edit in moved}
    if any((span.cell, span.line) in lines for span in spans):
        return match
    return replace(match, edits=(*match.edits, *moved))


def _growth(edit: Edit) -> int:
    return len(edit.replacement) - (edit.span.end_column - edit.span.column)


def _is_in(span: Span, name: Span) -> bool:
    if (span.cell, span.line) != (name.cell, name.end_line):
        return False
    start = name.column if name.line == name.end_line else 0
    return start <= span.column and span.end_column <= name.end_column


def _moves(file: File, call: ast.Call, longer: int) -> Iterator[Edit]:
    column = (call.func.end_col_offset or 0) + 1
    inside_strings = {
        line
        for node in ast.walk(call)
        if isinstance(node, (ast.Constant, ast.JoinedStr))
        for line in range(node.lineno + 1, (node.end_lineno or node.lineno) + 1)
    }
    for number in range((call.func.end_lineno or 0) + 1, (call.end_lineno or 0) + 1):
        line = file.lines[number - 1]
        margin = len(line) - len(line.lstrip())
        if line.strip() and margin >= column and number not in inside_strings:
            yield Edit(file.stretch(number, 0, number, max(-longer, 0)), " " * longer)
