"""The layout of a call whose name changes.

Lines that are aligned with its first argument stay so. Arguments go to lines of their own, as a
formatter puts them, if a line would be longer than those of the file; where they are on several
lines already, all of them go below the bracket.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from shardlift.rewrite.call_format import CallText, Style, render
from shardlift.source.file import File
from shardlift.source.model import Edit, Match, Span

_HANGING = 4  # columns that arguments stand in below the bracket, as black and yapf put them


def keep_aligned(file: File, matches: Iterable[Match]) -> list[Match]:
    """The matches, those that make the name of a call longer or shorter with more edits."""
    style = Style.of(file.source.text)
    width = max(style.width, 80 if len(style.indent) == 2 else 88)  # 88 is what black allows
    style = replace(style, width=width)
    matches = [_broken(file, match, style) for match in matches]
    calls: dict[tuple[int | None, int], list[ast.Call]] = defaultdict(list)
    for call in file.index.nodes(ast.Call):
        if _is_aligned(call):
            span = file.span(call.func)
            calls[span.cell, span.end_line].append(call)
    return [_kept(file, match, calls, style) for match in matches] if calls else matches


def _broken(file: File, match: Match, style: Style) -> Match:
    """The match, with the line broken that it would make too long."""
    number, here = getattr(match.node, "lineno", 0), file.span(match.node)
    spans = [(edit.span.cell, edit.span.line, edit.span.end_line) for edit in match.edits]
    if {*spans} != {(here.cell, here.line, here.line)}:
        return match
    line = file.lines[number - 1].rstrip("\r\n")
    after = _edited(line, match)
    if not _outgrows(line, after, style) or "\n" in after:
        return match
    text = _over_lines(after, style)
    edit = Edit(file.stretch(number, 0, number, len(line)), text)
    return replace(match, edits=(edit,)) if text != after else match


def _edited(line: str, match: Match) -> str:
    """A line with the edits of a match, which are all in it."""
    for edit in sorted(match.edits, key=lambda edit: edit.span, reverse=True):
        line = line[: edit.span.column] + edit.replacement + line[edit.span.end_column :]
    return line


def _outgrows(line: str, after: str, style: Style) -> bool:
    return len(line) <= style.width < len(after) and line.isascii()


def _over_lines(line: str, style: Style) -> str:
    """A statement, or an argument on its own line, with the call at its end over several lines.

    As it is if that does not make it short enough.
    """
    text = line.strip()
    comma = "," if text.endswith(",") else ""
    text, margin = text.removesuffix(","), line[: len(line) - len(line.lstrip())]
    try:
        (statement,) = ast.parse(text).body
    except (SyntaxError, ValueError):  # no statement, or several
        return line
    call = getattr(statement, "value", None)
    if not isinstance(call, ast.Call) or call.end_col_offset != len(text):
        return line
    nodes: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    nodes.sort(key=lambda node: node.col_offset)
    arguments = tuple(text[node.col_offset : node.end_col_offset] for node in nodes)
    start = call.func.end_col_offset or 0
    if text[start:] != f"({', '.join(arguments)})":
        return line
    laid_out = render(CallText(text[:start], arguments, comma), style, margin, len(margin))
    fits = all(len(part) <= style.width for part in laid_out.split("\n"))
    return margin + laid_out if fits else line


def _is_aligned(call: ast.Call) -> bool:
    """Whether arguments stand on the line of the bracket, and on lines below."""
    line = call.func.end_lineno
    first = min([*call.args, *(k.value for k in call.keywords)], key=_line, default=None)
    return first is not None and first.lineno == line and call.end_lineno != line


def _line(node: ast.expr) -> int:
    return node.lineno


def _kept(
    file: File,
    match: Match,
    calls: dict[tuple[int | None, int], list[ast.Call]],
    style: Style,
) -> Match:
    spans = [edit.span for edit in match.edits]
    if any(s.line != s.end_line for s in spans) or any("\n" in e.replacement for e in match.edits):
        return match
    moved: list[Edit] = []
    broken: list[Edit] = []
    for call in {c for s in spans for c in calls.get((s.cell, s.line), ())}:
        name = file.span(call.func)
        longer = sum(_growth(edit) for edit in match.edits if _is_in(edit.span, name))
        if longer:
            below = _below_bracket(file, call, match, style)
            broken += [below] if below else []
            first = 1 + (call.func.end_col_offset or 0)
            moved += _moves(file, call, _margin(file, call) - first if below else longer)
    lines = {(edit.span.cell, edit.span.line) for edit in moved}
    if any((span.cell, span.line) in lines for span in spans):
        return match
    return replace(match, edits=(*match.edits, *broken, *moved))


def _growth(edit: Edit) -> int:
    return len(edit.replacement) - (edit.span.end_column - edit.span.column)


def _is_in(span: Span, name: Span) -> bool:
    if (span.cell, span.line) != (name.cell, name.end_line):
        return False
    start = name.column if name.line == name.end_line else 0
    return start <= span.column and span.end_column <= name.end_column


def _below_bracket(file: File, call: ast.Call, match: Match, style: Style) -> Edit | None:
    """Put the arguments of an aligned call below its bracket, if its line is too long."""
    number, column = call.func.end_lineno or 0, (call.func.end_col_offset or 0) + 1
    line = file.lines[number - 1].rstrip("\r\n")
    if not _outgrows(line, _edited(line, match), style):
        return None
    first = len(line) - len(line[column:].lstrip())
    return Edit(file.stretch(number, column, number, first), f"\n{' ' * _margin(file, call)}")


def _margin(file: File, call: ast.Call) -> int:
    """The column of arguments below the bracket of a call."""
    line = file.lines[(call.func.end_lineno or 0) - 1]
    return len(line) - len(line.lstrip()) + _HANGING


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
