"""How a place is written."""

from __future__ import annotations

from shardlift.source.model import Span


def place(path: str, span: Span) -> str:
    """`train.py:12:5`, or `demo.ipynb:cell 3:12:5`."""
    cell = f"cell {span.cell}:" if span.cell is not None else ""
    return f"{path}:{cell}{span.line}:{span.column + 1}"
