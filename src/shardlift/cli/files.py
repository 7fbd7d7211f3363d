"""Finding and reading the files that a command was given."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from shardlift.cli.git import index
from shardlift.cli.ignore import IgnorePattern, decide, parse_patterns
from shardlift.cli.stop import stop

if TYPE_CHECKING:
    from shardlift.capture.schema import Capture

LARGEST_FILE = 256 * 2**20  # bytes; no program or notebook comes near
SUFFIXES = (".py", ".ipynb")
# Vendored code, and copies of the project's own.
_NEVER = {".venv", "venv", "node_modules", ".tox", ".nox", ".eggs", ".ipynb_checkpoints"}
_NOT_CODE = {".git", ".hg", ".svn", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}


@dataclass
class Passed:
    """What was passed over: on purpose, or because it could not be read."""

    skipped: list[str] = field(default_factory=list)  # files and whole folders
    failed: list[tuple[str, str]] = field(default_factory=list)  # with the reason


def find_files(
    paths: tuple[str, ...],
    passed: Passed | None = None,
    excluded: Sequence[IgnoreRules] = (),
) -> Iterator[str]:
    """Every .py and .ipynb file under the paths, in order, once.

    A file that is named itself is always included.
    """
    passed = passed or Passed()
    seen: set[str] = set()
    for path in paths:
        for file in _walk(Path(path), passed, excluded) if os.path.isdir(path) else [path]:
            key = os.path.normpath(file)
            if key not in seen:
                seen.add(key)
                yield key


def _walk(root: Path, passed: Passed, excluded: Sequence[IgnoreRules]) -> Iterator[str]:
    # A list of folders instead of recursion: a tree may be deeper than Python's call stack.
    waiting: list[tuple[str, list[IgnoreRules] | None]]
    waiting = [(str(root), [IgnoreRules(folder) for folder in _parents_in_repository(root)])]
    while waiting:
        path, rules = waiting.pop()
        if rules is None:
            yield path
        else:
            waiting += reversed(_inside(path, rules, passed, excluded))


def _inside(
    folder: str,
    outer: list[IgnoreRules],
    passed: Passed,
    excluded: Sequence[IgnoreRules],
) -> list[tuple[str, list[IgnoreRules] | None]]:
    """The wanted files and folders of a folder, in order; folders with their ignore rules.

    As in git, a .gitignore does not count for files that are tracked.
    """
    has_rules = os.path.isfile(os.path.join(folder, ".gitignore"))
    rules = [*outer, IgnoreRules(Path(folder))] if has_rules else outer
    try:
        with os.scandir(folder) as listed:
            found = (entry for entry in listed if _may_be_code(entry))
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        passed.failed.append((os.path.normpath(folder), reason(error)))
        return []
    wanted: list[tuple[str, list[IgnoreRules] | None]] = []
    ignored = [entry.name for entry in entries if _is_ignored(rules, entry)]
    tracked = index(folder, ignored) if ignored else None
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        # Not files: pipes, devices, and symlinks that dangle, loop or lead to a folder.
        is_file = not is_folder and os.path.isfile(entry.path)
        is_left_out = entry.name in ignored and entry.name not in (tracked or ())
        is_left_out |= entry.name in _NEVER or _is_ignored(excluded, entry)
        if is_left_out or not (is_folder or is_file):
            passed.skipped.append(os.path.normpath(entry.path))
        else:
            wanted.append((entry.path, rules if is_folder else None))
    return wanted


def _may_be_code(entry: os.DirEntry[str]) -> bool:
    is_folder = entry.is_dir(follow_symlinks=False)
    return entry.name not in _NOT_CODE and (is_folder or entry.name.endswith(SUFFIXES))


def _parents_in_repository(root: Path) -> list[Path]:
    """The folders above, up to the root of the repository, whose .gitignore counts here too."""
    above: list[Path] = []
    here = root.resolve()
    for folder in here.parents if not (here / ".git").exists() else ():
        above.append(folder)
        if (folder / ".git").exists():
            return list(reversed(above))
    return []


def _is_ignored(rules: Sequence[IgnoreRules], entry: os.DirEntry[str]) -> bool:
    """The innermost .gitignore with a pattern that matches decides."""
    path, is_folder = Path(entry.path), entry.is_dir(follow_symlinks=False)
    decisions = (rule.decide(path, is_folder) for rule in reversed(rules))
    return next((decision for decision in decisions if decision is not None), False)


class IgnoreRules:
    """The patterns of the .gitignore of a folder, or other ones relative to that folder."""

    def __init__(self, folder: Path, lines: Sequence[str] | None = None) -> None:
        """The file is read when it is needed."""
        self.folder, self.lines = folder.resolve(), lines

    @cached_property
    def patterns(self) -> list[IgnorePattern]:
        """In the order in which they are written."""
        if self.lines is not None:
            return parse_patterns(self.lines)
        try:
            content = read_bytes(str(self.folder / ".gitignore"))
        except OSError:
            content = b""
        return parse_patterns(content.decode(errors="surrogateescape").splitlines())

    def decide(self, path: Path, is_folder: bool) -> bool | None:
        """Whether these patterns ignore the path; None if none of them matches."""
        if not self.patterns:
            return None
        full = path.parent.resolve() / path.name
        if not full.is_relative_to(self.folder):
            return None
        relative = full.relative_to(self.folder).as_posix()
        return decide(self.patterns, relative + "/" * is_folder)


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
