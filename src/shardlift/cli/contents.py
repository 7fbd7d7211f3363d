"""The bytes of files as they were read, and what changes them."""

from __future__ import annotations

import io
import os
import subprocess
import tokenize
from collections.abc import Sequence
from pathlib import Path

from shardlift.cli.transaction import Change, WriteError


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

    def change(self, path: str, text: str) -> Change:
        """What puts new text in the place of a file, in its own encoding."""
        before = self._read.get(path)
        try:
            return Change(path, before, text.encode(_encoding(path, before or b"")))
        except UnicodeEncodeError as error:
            raise WriteError(f"{path} could not be written: {error}") from error


def _encoding(path: str, content: bytes) -> str:
    if path.endswith(".ipynb"):
        return "utf-8-sig" if content.startswith(b"\xef\xbb\xbf") else "utf-8"
    return tokenize.detect_encoding(io.BytesIO(content).readline)[0]


def dirty_files(paths: Sequence[str]) -> list[str]:
    """Those of the files whose text git does not have: changed, or never added."""
    found: list[str] = []
    for folder, names in _by_folder(paths).items():
        # A repository's own settings may name a program to be run: not by us.
        git = ["git", "-C", folder, "-c", "core.fsmonitor=false"]
        command = [*git, "status", "--porcelain", "-z", "--", *names]
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
