"""Edits of a text: applying them, and tracing positions back."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

from shardlift.source.model import Edit, Span

LINE_END = re.compile(r"\r\n|\r|\n")


class OverlapError(ValueError):
    """Two edits change the same part of a text."""


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits to a text. Equal edits count once; raises `OverlapError` if two overlap.

    >>> whole, name = Edit(Span(1, 0, 1, 7), "g(x)"), Edit(Span(1, 2, 1, 3), "h")
    >>> apply_edits("f(g(x))", [whole, name])
    'h(x)'
    """
    pieces: list[str] = []
    done = 0
    for start, end, replacement in _replacements(text, edits):
        if start < done:
            raise OverlapError(f"two edits overlap at offset {start}")
        pieces += [text[done:start], replacement]
        done = end
    return "".join([*pieces, text[done:]])


def origin(text: str, edits: Iterable[Edit], line: int, column: int) -> tuple[int, int, bool]:
    r"""The line and column in `text` of a position in the edited text, and whether it is exact.

    A position inside a replacement comes from the start of the replaced part, and is not exact.

    >>> edit = Edit(Span(1, 4, 1, 8), "jax.jit(\n")
    >>> origin("x = pmap(f)", [edit], 2, 1), origin("x = pmap(f)", [edit], 1, 6)
    ((1, 9, True), (1, 4, False))
    """
    edits = list(edits)
    after = line_starts(apply_edits(text, edits))
    place, exact = after[line - 1] + column, True
    for start, end, replacement in _replacements(text, edits):
        if place < start:
            break
        if place < start + len(replacement):
            place, exact = start, False
            break
        place += end - start - len(replacement)
    starts = line_starts(text)
    index = bisect_right(starts, place) - 1
    return index + 1, place - starts[index], exact


@lru_cache(maxsize=8)  # asked for every place of a text, and of the text that it becomes
def line_starts(text: str) -> tuple[int, ...]:
    """The offset of each line, with lines counted as Python's tokenizer does."""
    return (0, *(end.end() for end in LINE_END.finditer(text)))


def split_lines(text: str) -> list[str]:
    r"""The lines of a text with their line ends, counted as Python's parser does.

    >>> split_lines("a\rb\r\n\x0cc\n")
    ['a\r', 'b\r\n', '\x0cc\n']
    """
    lines = [text[start:end] for start, end in pairwise([*line_starts(text), len(text)])]
    return lines if lines[-1] else lines[:-1]


def _replacements(text: str, edits: Iterable[Edit]) -> list[tuple[int, int, str]]:
    """Start, end and new text of each edit, without duplicates; at one place, in their order.

    Where an edit keeps a part of the text that it replaces, edits of that part change its new text.
    """
    starts = line_starts(text)
    replaced = dict.fromkeys((*_offsets(starts, edit.span), edit.replacement) for edit in edits)
    outer: list[tuple[int, int, str]] = []
    for start, end, new in sorted(replaced, key=lambda replacement: replacement[:2]):
        if outer and outer[-1][0] < start < end <= outer[-1][1]:
            first, last, around = outer[-1]
            kept = rf"(?<![\w.]){re.escape(text[start:end])}(?!\w)"
            inside, count = re.subn(kept, new.replace("\\", r"\\"), around)
            if count:
                outer[-1] = first, last, inside
                continue
        outer.append((start, end, new))
    return outer


def _offsets(starts: Sequence[int], span: Span) -> tuple[int, int]:
    return starts[span.line - 1] + span.column, starts[span.end_line - 1] + span.end_column
