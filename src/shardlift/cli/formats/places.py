"""How a place is written."""

from __future__ import annotations

from shardlift.source.model import Finding


def place(finding: Finding) -> str:
    """`train.py:12:5`, or `demo.ipynb:cell 3:12:5`."""
    span = finding.span
    cell = f"cell {span.cell}:" if span.cell is not None else ""
    return f"{finding.path}:{cell}{span.line}:{span.column + 1}"
