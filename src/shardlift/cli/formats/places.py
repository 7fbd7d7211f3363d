"""How a place is written, and who rewrites what is there."""

from shardlift.source.model import Finding, Span


def place(path: str, span: Span) -> str:
    """`train.py:12:5`, or `demo.ipynb:cell 3:12:5`."""
    cell = f"cell {span.cell}:" if span.cell is not None else ""
    return f"{path}:{cell}{span.line}:{span.column + 1}"


def mark(finding: Finding) -> str:
    """`[fix]`, `[migrate]` or `[by hand]`."""
    return f"[{finding.rewriter.value}]"
