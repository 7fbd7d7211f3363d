"""Documents of an editor: the text of a file, saved or not."""

import asyncio
import io
import os
import threading
import tokenize
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

from shardlift.cli.files import read_bytes

# Set when the request that a thread works for is cancelled.
CANCELLED: ContextVar[threading.Event | None] = ContextVar("CANCELLED", default=None)


def stop_if_cancelled() -> None:
    """End the work for a request that nobody waits for any more."""
    cancelled = CANCELLED.get()
    if cancelled is not None and cancelled.is_set():
        raise asyncio.CancelledError


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
    """Files as the editor has them: open documents first, then the disk.

    A rewrite asks for files between its stages, so this is where a cancelled one stops.
    """

    def __init__(self, opened: Callable[[str], Document | None]) -> None:
        """`opened` returns the open document of a path."""
        self._opened = opened

    def read(self, path: str) -> bytes:
        """The content of a file; OSError if there is none."""
        stop_if_cancelled()
        document = self._opened(path)
        if document is not None:
            return document.content
        return read_bytes(path)

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        stop_if_cancelled()
        return self._opened(path) is not None or os.path.exists(path)
