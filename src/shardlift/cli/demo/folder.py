"""The folder of the demo, in which no file of the user is overwritten."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

__all__ = ["Folder", "FolderError"]

_MARK = ".shardlift-demo.json"  # a digest of each file that the demo wrote


class FolderError(Exception):
    """The folder cannot be used; the message says why, and the way out."""


class Folder:
    """A folder that is new, empty, or from an earlier demo."""

    def __init__(self, path: Path) -> None:
        """Create the folder if it does not exist."""
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()) and not (path / _MARK).is_file():
                raise FolderError(f"{path} contains other files: choose another folder with --into")
            self._digests = self._read()
            self._write()
        except OSError as error:
            raise FolderError(f"{path} cannot be used: {error.strerror or error}") from error

    def check_unchanged(self, *names: str) -> None:
        """Raise an error if one of the files was not written by the demo, or was changed since."""
        for name in names:
            if (self.path / name).exists() and self._digests.get(name) != self._digest(name):
                raise FolderError(
                    f"{self.path / name} was changed since the demo wrote it, and is not "
                    "overwritten: move it away, or choose another folder with --into"
                )

    def keep(self, *names: str) -> None:
        """Remember the current content of files as written by the demo."""
        self._digests |= {name: self._digest(name) for name in names}
        self._write()

    def put(self, name: str, content: bytes) -> None:
        """Write a file."""
        self.check_unchanged(name)
        (self.path / name).parent.mkdir(exist_ok=True)
        (self.path / name).write_bytes(content)
        self.keep(name)

    def has(self, name: str) -> bool:
        """Whether the file exists."""
        return (self.path / name).is_file()

    def _digest(self, name: str) -> str:
        return hashlib.sha256((self.path / name).read_bytes()).hexdigest()

    def _read(self) -> dict[str, str]:
        mark = self.path / _MARK
        try:
            digests = json.loads(mark.read_text()) if mark.exists() else {}
        except ValueError:
            digests = {}  # every file then counts as the user's
        return digests if isinstance(digests, dict) else {}

    def _write(self) -> None:
        (self.path / _MARK).write_text(json.dumps(self._digests, indent=1) + "\n")
