"""A table as HTML, for notebooks; every cell is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["html_table"]


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]], caption: str = "") -> str:
    """A table with a caption.

    >>> html_table(["leaf"], [["<w>"]])
    '<table><thead><tr><th>leaf</th></tr></thead><tbody><tr><td>&lt;w&gt;</td></tr></tbody></table>'
    """
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    body = "".join(_row("td", row) for row in rows)
    return f"<table>{title}<thead>{_row('th', header)}</thead><tbody>{body}</tbody></table>"


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
