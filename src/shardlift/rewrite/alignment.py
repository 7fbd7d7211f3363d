"""The layout of a call whose name changes.

Lines that are aligned with its first argument stay so. A line that would be longer than those of
the file is broken as a formatter breaks it.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from shardlift.rewrite.call_format import Style
from shardlift.source.file import File
from shardlift.source.model import Edit, Kind, Match, Span
from shardlift.source.scopes import grouped

_Line = tuple[int | None, int]  # with its cell, in a notebook
_MOST = 4  # of more names on one line none waits for another: there are no more passes
_STRING = re.compile(r"""'[^'\\]*'|"[^"\\]*\"""")
_INNER = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")
_ENDING = re.compile(
    r"[)\]}](\[\w+\]|\.\w+|\(\*?\w*\))*( -> [^:]+)?[,:]?"
)  # what may follow what is in brackets


def keep_aligned(file: File, matches: Iterable[Match]) -> list[Match]:
    """The matches, those that make the name of a call longer or shorter with more edits."""
    matches = [*_break_lines(file, matches, Breaks.of(file))]
    aligned = ((file.span(c.func), c) for c in file.index.nodes(ast.Call) if _is_aligned(c))
    calls = grouped(aligned, lambda pair: (pair[0].cell, pair[0].end_line))
    return [_kept(file, match, calls) for match in matches]


@dataclass(frozen=True)
class Breaks:
    """How a file breaks the lines that would be too long."""

    width: int
    step: str  # what stands in a bracket is so much further in
    hugs: bool  # whether the closing bracket stands behind what it closes

    @classmethod
    def of(cls, file: File) -> Breaks:
        """The breaks of a file: black's, or that of Google's style."""
        style = Style.of(file.source.text)
        is_google = len(style.indent) == 2
        hugs = is_google and not re.search(r"^ *\),?$", file.source.text, re.MULTILINE)
        width = max(style.width, 80 if is_google else 88)  # 88 is what black allows
        return cls(width, "    " if is_google else style.indent, hugs)


def _break_lines(file: File, matches: Iterable[Match], breaks: Breaks) -> Iterator[Match]:
    """The matches, with the lines broken that they would make too long.

    Of several names that make a line too long together all but the first wait for the next pass.
    What else is on a line has its turn now: it may not be found in what is written of the others.
    """
    matches = [*matches]
    others = [match for match in matches if match.kind is not Kind.NAME]
    taken, read = (Counter(n for one in ms for n in _lines_of(one)) for ms in (matches, others))
    for lines, found in grouped(matches, _lines_of).items():
        is_name = all(match.kind is Kind.NAME for match in found)
        is_free = all(not read[line] if is_name else taken[line] == 1 for line in lines)
        if (
            not is_free
            or len(found) > _MOST
            or (edit := _break(file, found, lines, breaks)) is None
        ):
            yield from found
        elif len(found) > 1:
            edit = _break(file, found[:1], lines, breaks)
            yield found[0] if edit is None else replace(found[0], edits=(edit,))
        else:
            yield replace(found[0], edits=(edit,))


def _break(
    file: File, matches: Sequence[Match], lines: frozenset[_Line], breaks: Breaks
) -> Edit | None:
    """What becomes of lines if some matches make one line of them that is too long.

    None if it is none, was too long before, or cannot be broken.
    """
    here = file.span(matches[0].node)
    moved = getattr(matches[0].node, "lineno", 0) - here.line  # in a notebook
    first, last = (choose(line for _, line in lines) + moved for choose in (min, max))
    is_near = {cell for cell, _ in lines} == {here.cell} and last - first < len(lines)
    if not is_near or (len(matches) > 1 and first != last):
        return None
    old = file.lines[first - 1 : last]
    after = _edited(old, [edit for match in matches for edit in match.edits])
    if "\n" in after or not max(map(len, old)) <= breaks.width < len(after) or not after.isascii():
        return None
    above, below = file.lines[first - 2 : first - 1], file.lines[last : last + 1]
    is_inside = any(line.rstrip().endswith(("(", "[", "{")) for line in above) and any(
        line.lstrip().startswith((")", "]", "}")) for line in below
    )
    margin = after[: len(after) - len(after.lstrip())]
    broken = [*parts_of(after.strip(), margin, breaks, is_inside)]
    if any(len(line) > breaks.width for line in broken) or not "".join(old).isascii():
        return None
    return Edit(file.stretch(first, 0, last, len(old[-1])), "\n".join(broken))


def _lines_of(match: Match) -> frozenset[_Line]:
    """The lines that a match edits."""
    spans = [edit.span for edit in match.edits]
    return frozenset((s.cell, line) for s in spans for line in range(s.line, s.end_line + 1))


def _edited(lines: Sequence[str], edits: Iterable[Edit]) -> str:
    """Lines with edits that are all in them."""
    first = min(edit.span.line for edit in edits)
    text, starts = "\n".join(lines), [0, *accumulate(len(line) + 1 for line in lines)]
    for edit in sorted({*edits}, key=lambda edit: edit.span, reverse=True):
        start = starts[edit.span.line - first] + edit.span.column
        end = starts[edit.span.end_line - first] + edit.span.end_column
        text = text[:start] + edit.replacement + text[end:]
    return text


def parts_of(text: str, margin: str, breaks: Breaks, is_inside: bool) -> Iterator[str]:
    """The lines of a text as a formatter breaks it; `is_inside` if it is all within brackets."""
    brackets = _last_brackets(text, breaks.width - len(margin))
    if len(margin) + len(text) <= breaks.width:
        yield margin + text
    elif is_inside and len(arguments := _arguments(text)) > 1:
        for argument in arguments:
            yield from parts_of(f"{argument},", margin, breaks, False)
    elif is_inside and (clause := _masked(text, _INNER).find(" for ")) > 0:  # a comprehension
        yield from parts_of(text[:clause], margin, breaks, False)
        yield from parts_of(text[clause + 1 :], margin, breaks, False)
    elif brackets is None:
        yield margin + text
    else:
        start, end = brackets
        yield margin + text[:start]
        inner = [*parts_of(text[start:end], margin + breaks.step, breaks, True)]
        if breaks.hugs:
            yield from inner[:-1]
            yield inner[-1].removesuffix(",") + text[end:]
        else:
            yield from (*inner, margin + text[end:])


def _arguments(text: str) -> tuple[str, ...]:
    """What stands between brackets, by the commas; none if there are others in it."""
    source = f"_({text})"
    try:
        call = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError):  # of a definition, or in a dict
        starts = [0, *(comma.end() for comma in re.finditer(", ", _masked(text, _INNER)))]
        ends = [*starts[1:], len(text) + 2]
        return tuple(text[start : end - 2] for start, end in zip(starts, ends, strict=True))
    assert isinstance(call, ast.Call)
    nodes: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    spans = sorted((node.col_offset, node.end_col_offset or 0) for node in nodes)
    parts = tuple(source[start:end] for start, end in spans)
    return parts if ", ".join(parts) == text else ()


def _masked(text: str, *others: re.Pattern[str]) -> str:
    """A text without what is in its strings, and in what else is given."""
    for pattern in (_STRING, *others):
        before = ""
        while before != text:
            before, text = text, pattern.sub(lambda match: "_" * len(match[0]), text)
    return text


def _last_brackets(text: str, room: int) -> tuple[int, int] | None:
    """The inside of the last call of a line, or else of its last brackets, if it ends with them.

    What is before them fits, if there are such.
    """
    masked = _masked(text)
    opened: list[int] = []
    pairs: list[tuple[int, int]] = []
    for place, char in enumerate(masked):
        if char in "([{":
            opened.append(place + 1)
        elif char in ")]}":
            start = opened.pop() if opened else place
            pairs += [(start, place)] if not opened and start < place else []
    pairs = [pair for pair in pairs if _ENDING.fullmatch(masked, pair[1])]
    calls = [pair for pair in pairs if text[pair[0] - 1] == "("]
    is_known = not opened and not set(masked) & set("'\"#\\")
    fitting = [pair for pair in calls or pairs if pair[0] <= room]
    return (fitting or calls or pairs)[-1] if is_known and pairs else None


def _is_aligned(call: ast.Call) -> bool:
    """Whether arguments stand on the line of the bracket, and on lines below."""
    line = call.func.end_lineno
    lines = [argument.lineno for argument in (*call.args, *(k.value for k in call.keywords))]
    return min(lines, default=None) == line != call.end_lineno


def _kept(file: File, match: Match, calls: Mapping[_Line, list[tuple[Span, ast.Call]]]) -> Match:
    spans = [edit.span for edit in match.edits]
    if any(s.line != s.end_line for s in spans) or any("\n" in e.replacement for e in match.edits):
        return match
    moved: list[Edit] = []
    for name, call in {pair for s in spans for pair in calls.get((s.cell, s.line), ())}:
        inside = [edit for edit in match.edits if _is_in(edit.span, name)]
        longer = sum(len(e.replacement) - (e.span.end_column - e.span.column) for e in inside)
        if longer:
            moved += _moves(file, call, longer)
    lines = {(edit.span.cell, edit.span.line) for edit in moved}
    if any((span.cell, span.line) in lines for span in spans):
        return match
    return replace(match, edits=(*match.edits, *moved))


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
