"""The folder of the demo: it holds what the demo made, and nothing of anybody's is lost in it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

__all__ = ["Folder", "FolderError"]

_MARK = ".shardlift-demo.json"  # what the demo wrote, and a digest of each file


class FolderError(Exception):
    """The folder cannot be used; the message says why, and the way out."""


class Folder:
    """A folder that is new, empty, or of an earlier demo."""

    def __init__(self, path: Path) -> None:
        """Makes it, if it is not there."""
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()) and not (path / _MARK).is_file():
                raise FolderError(f"{path} has files that are not of a demo; say --into ANOTHER")
            self._made = self._read()
            self._write()
        except OSError as error:
            raise FolderError(f"{path} cannot be used: {error.strerror or error}") from error

    def free(self, *names: str) -> None:
        """Refuse to write over what somebody changed, or put there, since the demo wrote it."""
        for name in names:
            if (self.path / name).exists() and self._made.get(name) != self._digest(name):
                raise FolderError(
                    f"{self.path / name} is not as the demo left it, and is not written over: "
                    "move it away, or say --into ANOTHER"
                )

    def keep(self, *names: str) -> None:
        """Remember files as they are now: they are the demo's."""
        self._made |= {name: self._digest(name) for name in names}
        self._write()

    def put(self, name: str, content: bytes) -> None:
        """Write a file of the demo's."""
        self.free(name)
        (self.path / name).parent.mkdir(exist_ok=True)
        (self.path / name).write_bytes(content)
        self.keep(name)

    def has(self, name: str) -> bool:
        """Is it there, whoever wrote it?"""
        return (self.path / name).is_file()

    def _digest(self, name: str) -> str:
        return hashlib.sha256((self.path / name).read_bytes()).hexdigest()

    def _read(self) -> dict[str, str]:
        mark = self.path / _MARK
        try:
            found = json.loads(mark.read_text()) if mark.exists() else {}
        except ValueError:
            found = {}  # then nothing is known to be ours
        return found if isinstance(found, dict) else {}

    def _write(self) -> None:
        (self.path / _MARK).write_text(json.dumps(self._made, indent=1) + "\n")
