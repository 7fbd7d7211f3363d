"""Documents of an editor: the text of a file, saved or not."""

from __future__ import annotations

import io
import os
import tokenize
from collections.abc import Callable
from dataclasses import dataclass

from shardlift.cli.files import read_bytes


@dataclass(frozen=True)
class Document:
    """An open file."""

    path: str
    text: str

    @property
    def content(self) -> bytes:
        """What would be in the file if it were saved."""
        content = self.text.encode("utf-8", "surrogatepass")
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
            return self.text.encode(encoding)
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
