"""Positions: lines from 1 and characters here; lines from 0 and the units of an editor there."""

from __future__ import annotations

from lsprotocol import types
from pygls.workspace import PositionCodec

from shardlift.source.edits import split_lines
from shardlift.source.model import Span


class Positions:
    """Positions in one text."""

    def __init__(self, text: str, codec: PositionCodec) -> None:
        """`codec` has the encoding that editor and server agreed on."""
        self._lines = split_lines(text)
        self._codec = codec

    def range(self, span: Span) -> types.Range:
        """A span as the editor counts it."""
        start = types.Position(span.line - 1, span.column)
        end = types.Position(span.end_line - 1, span.end_column)
        return self._codec.range_to_client_units(self._lines, types.Range(start, end))

    def span(self, given: types.Range) -> Span:
        """A range of the editor as a span."""
        found = self._codec.range_from_client_units(self._lines, given)
        start, end = found.start, found.end
        return Span(start.line + 1, start.character, end.line + 1, end.character)
