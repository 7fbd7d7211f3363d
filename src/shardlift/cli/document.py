"""The JSON document of a command: one schema for all of them (docs/agents.md)."""

import json
from collections.abc import Iterable
from typing import Any

from shardlift.source.model import Span

SCHEMA = 1
Item = dict[str, Any]


def item(code: str, message: str, path: str = "", span: Span | None = None, **more: Any) -> Item:
    """One thing that was done or left: its code, where it is, and what to say of it."""
    where = {"path": path} if path else {}
    return {"code": code, "message": message, **where, **place(span), **more}


def place(span: Span | None) -> dict[str, int]:
    """A span in the document: lines and columns start at 1; only a notebook has a cell."""
    if span is None:
        return {}
    cell = {} if span.cell is None else {"cell": span.cell}
    return cell | {
        "line": span.line,
        "column": span.column + 1,
        "end_line": span.end_line,
        "end_column": span.end_column + 1,
    }


def document(
    command: str,
    status: int,
    *,
    done: Iterable[Item] = (),
    left: Iterable[Item] = (),
    next_commands: Iterable[str] = (),
    **more: Any,
) -> str:
    """The document: `status` is the exit status, `more` is what only this command has to say."""
    tree = {
        "schema": SCHEMA,
        "command": command,
        "status": status,
        "done": list(done),
        "left": list(left),
        "next": list(next_commands),
        **more,
    }
    return json.dumps(tree, indent=2, ensure_ascii=False)
