"""Notebooks: edits made cell by cell, in JSON that stays laid out as it was."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from shardlift.source.edits import apply_edits
from shardlift.source.model import Edit
from shardlift.source.notebook import source_of_cell


class LayoutError(ValueError):
    """The JSON is laid out in a way that cannot be kept."""


@dataclass(frozen=True)
class Layout:
    """How a notebook's JSON is written."""

    indent: int | None
    ascii_only: bool
    html_safe: bool  # as Colab writes it
    end: str

    def write(self, document: Any) -> str:
        """The document as JSON."""
        text = json.dumps(document, indent=self.indent, ensure_ascii=self.ascii_only)
        for character in "<>&" if self.html_safe else "":
            text = text.replace(character, f"\\u{ord(character):04x}")
        return text + self.end


def edit_cells(raw: str, edits: Iterable[Edit]) -> str:
    """A notebook with edits made in its cells."""
    layout = layout_of(raw)
    document = json.loads(raw)
    by_cell: dict[int, list[Edit]] = defaultdict(list)
    for edit in edits:
        assert edit.span.cell is not None
        by_cell[edit.span.cell].append(replace(edit, span=replace(edit.span, cell=None)))
    for number, listed in by_cell.items():
        cell = document["cells"][number - 1]
        _set_source(cell, apply_edits(source_of_cell(cell), listed))
    return layout.write(document)


def insert_cell(raw: str, before: int, text: str) -> str:
    """A notebook with a code cell put in front of the cell of a number, counted from 1."""
    layout = layout_of(raw)
    document = json.loads(raw)
    cell: dict[str, Any] = {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": text.rstrip("\n").splitlines(keepends=True),
    }
    if any("id" in other for other in document["cells"]):
        cell = {"cell_type": "code", "execution_count": None, "id": "per-device", **cell}
    document["cells"].insert(before - 1, cell)
    return layout.write(document)


def layout_of(raw: str) -> Layout:
    """The layout that gives the notebook back as it is; raises `LayoutError` if none does."""
    document = json.loads(raw)
    end = raw[len(raw.rstrip()) :]
    flags = (False, True)
    for indent, ascii_only, html_safe in product((1, 2, 4, 0, None), flags, flags):
        layout = Layout(indent, ascii_only, html_safe, end)
        if layout.write(document) == raw:
            return layout
    raise LayoutError("its JSON is not laid out as Jupyter writes it: open it there and save it")


def _set_source(cell: dict[str, Any], text: str) -> None:
    is_list = isinstance(cell.get("source"), list)
    cell["source"] = text.splitlines(keepends=True) if is_list else text
