"""Applying edits: text and edits in, text out."""

from __future__ import annotations

from collections.abc import Iterable

from shardlift.codemod.finding import Edit, Span


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


def line_starts(text: str) -> list[int]:
    """The offset at which each line starts, lines counted as Python's tokenizer counts them."""
    starts = [0]
    for index, character in enumerate(text):
        if character == "\n" or (character == "\r" and text[index + 1 : index + 2] != "\n"):
            starts.append(index + 1)
    return starts


def _offsets(starts: list[int], span: Span) -> tuple[int, int]:
    return starts[span.line - 1] + span.column, starts[span.end_line - 1] + span.end_column
