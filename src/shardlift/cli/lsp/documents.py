"""Documents of an editor: the text of a file, or of the cells of a notebook, saved or not."""

from __future__ import annotations

import io
import json
import os
import tokenize
from collections.abc import Callable
from dataclasses import dataclass

from shardlift.cli.input_files import read_bytes
from shardlift.source.notebook import source_of_cell


@dataclass(frozen=True)
class Document:
    """An open file. A notebook has one text per cell, and `code` says which cells are code."""

    path: str
    texts: tuple[str, ...]
    code: tuple[bool, ...] | None = None

    @property
    def content(self) -> bytes:
        """What would be in the file if it were saved."""
        if self.code is None:
            return _encoded(self.texts[0])
        cells = [
            {"cell_type": "code" if is_code else "markdown", "source": text}
            for text, is_code in zip(self.texts, self.code, strict=True)
        ]
        return json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5}).encode()

    def text(self, cell: int | None) -> str:
        """The text of a cell, by its number, or of the file."""
        return self.texts[0 if cell is None else cell - 1]

    def cells_of(self, content: str) -> list[str]:
        """The texts of these cells in a rewritten notebook.

        An editor cannot be told to add a cell: the text of a new one goes to the top of the next.
        """
        texts, added = [], ""
        for cell in json.loads(content)["cells"]:
            text = source_of_cell(cell)
            if "outputs" in cell:  # no cell of `content` has any: this one is new
                added = f"{text.rstrip()}\n\n\n"
            else:
                texts.append(added + text)
                added = ""
        return texts


def _encoded(text: str) -> bytes:
    content = text.encode("utf-8", "surrogatepass")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        return text.encode(encoding)
    except (SyntaxError, LookupError, UnicodeEncodeError):
        return content


class Files:
    """Files as the editor has them: open documents first, then the disk."""

    def __init__(self, opened: Callable[[str], Document | None]) -> None:
        """`opened` returns the open document of a path."""
        self._opened = opened
        self._known: dict[str, tuple[tuple[int, int], bytes]] = {}

    def read(self, path: str) -> bytes:
        """The content of a file; OSError if there is none."""
        document = self._opened(path)
        if document is not None:
            return document.content
        status = os.stat(path)
        stamp = status.st_mtime_ns, status.st_size
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            known = self._known[path] = stamp, read_bytes(path)
        return known[1]

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return self._opened(path) is not None or os.path.exists(path)
