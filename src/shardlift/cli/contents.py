"""The bytes of files as they were read, and what changes them."""

from __future__ import annotations

import io
import os
import tokenize
from pathlib import Path

from shardlift.cli import git
from shardlift.cli.transaction import Replacement, WriteError, free_name


class Contents:
    """The bytes of files as they were first read."""

    def __init__(self) -> None:
        """Nothing is read until it is asked for."""
        self._read: dict[str, bytes] = {}

    def read(self, path: str) -> bytes:
        """The bytes of a file."""
        if path not in self._read:
            self._read[path] = Path(path).read_bytes()
        return self._read[path]

    def replacement(self, path: str, text: str) -> Replacement:
        """What puts new text in the place of a file, in its own encoding."""
        before = self._read.get(path)
        try:
            return Replacement(path, before, text.encode(_encoding(path, before or b"")))
        except UnicodeEncodeError as error:
            raise WriteError(f"{path} could not be written: {error}") from error

    def copy(self, path: str) -> Replacement | None:
        """What keeps the text of a file under another name, if no git repository has the file."""
        before = self._read.get(path)
        if before is None or git.is_repository(os.path.dirname(os.path.realpath(path))):
            return None
        return Replacement(free_name(path), None, before)


def _encoding(path: str, content: bytes) -> str:
    if path.endswith(".ipynb"):
        return "utf-8-sig" if content.startswith(b"\xef\xbb\xbf") else "utf-8"
    return tokenize.detect_encoding(io.BytesIO(content).readline)[0]
