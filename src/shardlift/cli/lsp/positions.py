"""Positions: lines from 1 and characters here; lines from 0 and the units of an editor there."""

from __future__ import annotations

from lsprotocol import types

from shardlift.source.edits import split_lines
from shardlift.source.model import Span

# Bytes per unit, by the encoding that editor and server agreed on; UTF-16 is the default.
_CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


class Positions:
    """Positions in one text."""

    def __init__(self, text: str, encoding: str | None) -> None:
        """`encoding` is the position encoding of the session."""
        self._lines = split_lines(text)
        self._codec, self._width = _CODECS.get(encoding or "", _CODECS["utf-16"])

    def range(self, span: Span) -> types.Range:
        """A span as the editor counts it."""
        return types.Range(
            self._position(span.line, span.column), self._position(span.end_line, span.end_column)
        )

    def span(self, given: types.Range) -> Span:
        """A range of the editor as a span."""
        start, end = given.start, given.end
        return Span(start.line + 1, self._column(start), end.line + 1, self._column(end))

    def _position(self, line: int, column: int) -> types.Position:
        before = self._line(line)[:column]
        units = len(before.encode(self._codec, "surrogatepass")) // self._width
        return types.Position(line - 1, units)

    def _column(self, position: types.Position) -> int:
        content = self._line(position.line + 1).encode(self._codec, "surrogatepass")
        before = content[: position.character * self._width]
        return len(before.decode(self._codec, "ignore"))

    def _line(self, line: int) -> str:
        return self._lines[line - 1] if 0 < line <= len(self._lines) else ""
