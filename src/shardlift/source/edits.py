"""Applying edits: text and edits in, text out."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise

from shardlift.source.model import Edit, Span

_LINE_END = re.compile(r"\r\n|\r|\n")


class OverlapError(ValueError):
    """Two edits want the same stretch of text."""


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text with every edit made; equal edits count once, overlapping ones are refused."""
    starts = line_starts(text)
    wanted = sorted({(*_offsets(starts, edit.span), edit.replacement) for edit in edits})
    pieces: list[str] = []
    done = 0
    for start, end, replacement in wanted:
        if start < done:
            raise OverlapError(f"two edits overlap at offset {start}")
        pieces += [text[done:start], replacement]
        done = end
    return "".join([*pieces, text[done:]])


def origin(text: str, edits: Iterable[Edit], line: int, column: int) -> tuple[int, int, bool]:
    r"""Where a place of the text with the edits made comes from in `text`: line, column.

    And whether it is text that the edits left: what they wrote comes from the beginning of what
    was there.

    >>> edit = Edit(Span(1, 4, 1, 8), "jax.jit(\n")
    >>> origin("x = pmap(f)", [edit], 2, 1), origin("x = pmap(f)", [edit], 1, 6)
    ((1, 9, True), (1, 4, False))
    """
    starts = line_starts(text)
    after = line_starts(apply_edits(text, edits := list(edits)))
    place, exact = after[line - 1] + column, True
    for start, end, replacement in sorted(
        {(*_offsets(starts, edit.span), edit.replacement) for edit in edits}
    ):
        if place < start:
            break
        if place < start + len(replacement):
            place, exact = start, False
            break
        place += end - start - len(replacement)
    found = bisect_right(starts, place) - 1
    return found + 1, place - starts[found], exact


def line_starts(text: str) -> list[int]:
    """The offset at which each line starts, lines counted as Python's tokenizer counts them."""
    return [0, *(end.end() for end in _LINE_END.finditer(text))]


def split_lines(text: str) -> list[str]:
    r"""The lines of a text with their ends, counted as Python's parser counts them.

    >>> split_lines("a\rb\r\n\x0cc\n")
    ['a\r', 'b\r\n', '\x0cc\n']
    """
    starts = [*line_starts(text), len(text)]
    found = [text[a:b] for a, b in pairwise(starts)]
    return found if found[-1] else found[:-1]


def _offsets(starts: list[int], span: Span) -> tuple[int, int]:
    return starts[span.line - 1] + span.column, starts[span.end_line - 1] + span.end_column
