"""Writing files so that nothing is lost: whole or not at all, and not over another's change."""

from __future__ import annotations

import io
import os
import subprocess
import tokenize
from collections.abc import Sequence
from pathlib import Path

from shardlift._files import replace_file


class WriteError(Exception):
    """A file was not written; the message says why. What was there is still there."""


class Contents:
    """The bytes of files as they were first read, and their replacement by new text."""

    def __init__(self) -> None:
        """Nothing is read until it is asked for."""
        self._read: dict[str, bytes] = {}

    def read(self, path: str) -> bytes:
        """The bytes of a file."""
        if path not in self._read:
            self._read[path] = Path(path).read_bytes()
        return self._read[path]

    def write(self, path: str, text: str) -> None:
        """Put new text in the place of a file, in its own encoding and with its own mode."""
        before = self._read.get(path)
        target = os.path.realpath(path)
        try:
            now = Path(target).read_bytes() if os.path.exists(target) else None
            if now != before:
                raise WriteError(f"{path} has changed since it was read, and was left alone")
            replace_file(target, text.encode(_encoding(path, before or b"")))
        except (OSError, UnicodeEncodeError) as error:
            raise WriteError(f"{path} could not be written: {error}") from error


def _encoding(path: str, content: bytes) -> str:
    if path.endswith(".ipynb"):
        return "utf-8-sig" if content.startswith(b"\xef\xbb\xbf") else "utf-8"
    return tokenize.detect_encoding(io.BytesIO(content).readline)[0]


def dirty_files(paths: Sequence[str]) -> list[str]:
    """Those of the files whose text git does not have: changed, or never added."""
    found: list[str] = []
    for folder, names in _by_folder(paths).items():
        command = ["git", "-C", folder, "status", "--porcelain", "-z", "--", *names]
        try:
            done = subprocess.run(command, capture_output=True, check=False, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            entries = done.stdout.decode(errors="replace").split("\0")
            dirty = {os.path.basename(entry[3:]) for entry in entries}
            found += [os.path.join(folder, name) for name in names if name in dirty]
    return [os.path.normpath(path) for path in found]


def _by_folder(paths: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for path in paths:
        if os.path.exists(path):
            found.setdefault(os.path.dirname(path) or ".", []).append(os.path.basename(path))
    return found
