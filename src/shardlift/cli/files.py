"""Finding and reading the files that a command was given."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from shardlift.cli import git
from shardlift.cli.stop import stop

if TYPE_CHECKING:
    from shardlift.capture.schema import Capture

LARGEST_FILE = 256 * 2**20  # bytes; no program or notebook comes near
OLD_TEXTS = ".shardlift-migrate"  # the folder of a write that has not ended
SUFFIXES = (".py", ".ipynb")
# Vendored code, and copies of the project's own.
_NEVER = {".venv", "venv", "node_modules", ".tox", ".nox", ".eggs", ".ipynb_checkpoints"}
_NOT_CODE = {".git", ".hg", ".svn", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}


@dataclass
class Passed:
    """What was skipped: on purpose, or because it could not be read."""

    skipped: list[str] = field(default_factory=list)  # files and whole folders
    failed: list[tuple[str, str]] = field(default_factory=list)  # with the reason


@dataclass(frozen=True)
class Excluded:
    """Patterns of names, such as `build`, and of paths from a folder on, such as `src/old_*`."""

    folder: Path
    patterns: Sequence[str]

    def covers(self, path: str) -> bool:
        """Whether one of them matches a file or folder."""
        relative = PurePath(os.path.relpath(path, self.folder))
        texts = {True: relative.as_posix(), False: relative.name}
        return any(
            fnmatchcase(texts["/" in pattern.rstrip("/")], pattern.strip("/"))
            for pattern in self.patterns
        )


def find_files(
    paths: tuple[str, ...], passed: Passed | None = None, excluded: Sequence[Excluded] = ()
) -> Iterator[str]:
    """Every .py and .ipynb file under the paths, in order, once.

    A file that is named itself is always included.
    """
    passed = passed or Passed()
    seen: set[str] = set()
    for path in paths:
        for file in _walk(path, passed, excluded) if os.path.isdir(path) else [path]:
            key = os.path.normpath(file)
            if key not in seen:
                seen.add(key)
                yield key


def _walk(root: str, passed: Passed, excluded: Sequence[Excluded]) -> Iterator[str]:
    ignored = set(git.ignored(root))
    # A list of folders instead of recursion: a tree may be deeper than Python's call stack.
    waiting: list[tuple[str, bool]] = [(root, True)]
    while waiting:
        path, is_folder = waiting.pop()
        if not is_folder:
            yield path
            continue
        if path != root and os.path.exists(os.path.join(path, ".git")):
            ignored |= git.ignored(path)  # a repository inside of another one
        try:
            with os.scandir(path) as listed:
                entries = sorted(filter(_may_be_code, listed), key=lambda entry: entry.name)
        except OSError as error:
            passed.failed.append((os.path.normpath(path), reason(error)))
            continue
        wanted = []
        for entry in entries:
            inside = entry.is_dir(follow_symlinks=False)
            # Not files: pipes, devices, and symlinks that dangle, loop or lead to a folder.
            is_usable = inside or os.path.isfile(entry.path)
            name = os.path.normpath(entry.path)
            is_left_out = entry.name in _NEVER or name in ignored
            if is_left_out or not is_usable or any(patterns.covers(name) for patterns in excluded):
                passed.skipped.append(name)
            else:
                wanted.append((entry.path, inside))
        waiting += reversed(wanted)


def _may_be_code(entry: os.DirEntry[str]) -> bool:
    if entry.name in _NOT_CODE or entry.name.startswith(OLD_TEXTS):
        return False
    is_folder = entry.is_dir(follow_symlinks=False)
    return is_folder or entry.name.endswith(SUFFIXES)


def read_bytes(path: str) -> bytes:
    """The bytes of a regular file; a pipe or a device is not waited for."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "is not a file")
        content = stream.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise OSError(errno.EFBIG, f"has more than {LARGEST_FILE // 2**20} MB")
    return content


def reason(error: OSError) -> str:
    """Why a file cannot be had, in a few words."""
    return error.strerror or str(error) or type(error).__name__


def read_capture(path: str, option: str = "") -> Capture:
    """Read a capture with its parts, or stop with the reason; ``option`` is what named it."""
    from shardlift.capture.files import CaptureError
    from shardlift.capture.parts import read_whole

    try:
        return read_whole(path)
    except CaptureError as error:
        stop(str(error))
    except OSError as error:
        stop(f"{option} {path} cannot be read: {reason(error)}".lstrip())
