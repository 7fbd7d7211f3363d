"""Several files replaced together: whatever happens, the tree is the old one or the new one.

1. A new folder at the root of the project gets the old and the new texts of all files, and then a
   journal that names the files.
2. Each new text is renamed over its file.
3. The journal is deleted: the new texts stay. Then the folder is.

As long as there is a journal, everything is put back: at once after an error or a signal, after a
kill by the next command that writes. A file with neither the old nor the new text was changed by
somebody else: it stays, and so does the old text, beside it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import os
import shutil
import tokenize
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from shardlift.cli import git
from shardlift.cli.files import read_bytes
from shardlift.cli.stop import end_by_exception
from shardlift.report.numbers import count

Returned = TypeVar("Returned")
FOLDER = ".shardlift-migrate"
_JOURNAL = "journal.json"
_MARKS = (".git", ".hg", "pyproject.toml", "setup.py")
_ABOUT = (
    "shardlift migrate was interrupted; the next `shardlift migrate --write` puts the files back"
)


class WriteError(Exception):
    """Nothing was written; the message says why."""


@dataclass(frozen=True)
class Replacement:
    """A file, the bytes that it has (None: there is no such file), and those that it gets."""

    path: str
    before: bytes | None
    after: bytes


def root_of(paths: Sequence[str]) -> str:
    """The root of the project that has these paths; without one, their common folder."""
    common = Path(os.path.commonpath([_folder(path) for path in paths]))
    for folder in (common, *common.parents):
        if any((folder / mark).exists() for mark in _MARKS):
            return str(folder)
    return str(common)


def _folder(path: str) -> str:
    full = os.path.abspath(path)
    return full if os.path.isdir(full) else os.path.dirname(full)


def replace_all(replacements: Sequence[Replacement], root: str) -> None:
    """Replace the files, all of them or none; `WriteError` says why none."""
    with _replaced(replacements, root) as journal:
        os.unlink(journal)


def during(replacements: Sequence[Replacement], root: str, run: Callable[[], Returned]) -> Returned:
    """The result of `run`, which may take its time; the files are replaced for its length only."""
    with end_by_exception(), _replaced(replacements, root):
        return run()


@contextlib.contextmanager
def _replaced(replacements: Sequence[Replacement], root: str) -> Iterator[str]:
    """The new texts are in place; afterwards the old ones are again, unless the journal is gone."""
    root = os.path.realpath(root)
    folder = os.path.join(root, FOLDER)
    given = _below(root, replacements)
    with _as_write_error(folder):
        os.mkdir(folder, 0o700)
    try:
        with _as_write_error(folder):
            journal = _put_in_place(root, folder, given)
        yield journal
    finally:
        edited = _put_back(folder)
    if edited:
        raise WriteError(_left_alone(edited))


@contextlib.contextmanager
def _as_write_error(folder: str) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise WriteError(f"another migrate has just begun here: {folder}") from None
    except OSError as error:
        raise WriteError(f"{error.filename or folder} could not be written: {error}") from error


def _below(root: str, replacements: Sequence[Replacement]) -> dict[str, Replacement]:
    """What to write by its real path below the root; of a file and links to it, the file's own."""
    found = {}
    for replacement in sorted(replacements, key=lambda one: not os.path.islink(one.path)):
        path, real = replacement.path, os.path.realpath(replacement.path)
        if not _is_inside(root, real):
            raise WriteError(f"{path} is {real}, outside of the project {root}; nothing is written")
        found[os.path.relpath(real, root)] = replacement
    return found


def _put_in_place(root: str, folder: str, given: dict[str, Replacement]) -> str:
    """Rename the new texts over the files, once the journal names them; returns its path."""
    names = [os.path.join(folder, str(number)) for number in range(len(given))]
    for name, (path, replacement) in zip(names, given.items(), strict=True):
        _stage(os.path.join(root, path), replacement, name)
    files = [
        {"path": path, "created": replacement.before is None, "new": _digest(replacement.after)}
        for path, replacement in given.items()
    ]
    document = {"about": _ABOUT, "process": os.getpid(), "files": files}
    journal = os.path.join(folder, _JOURNAL)
    _create(f"{journal}.new", json.dumps(document, indent=1).encode())
    os.replace(f"{journal}.new", journal)
    for name, path in zip(names, given, strict=True):
        os.replace(f"{name}.new", os.path.join(root, path))
    return journal


def _stage(path: str, replacement: Replacement, name: str) -> None:
    if _read(path) != replacement.before:
        raise WriteError(f"{replacement.path} has changed since it was read; nothing is written")
    _create(f"{name}.new", replacement.after)
    if replacement.before is not None:
        shutil.copymode(path, f"{name}.new")
        try:
            os.link(path, f"{name}.old")
        except OSError:  # a file system without links
            shutil.copy2(path, f"{name}.old")


def _put_back(folder: str) -> list[str]:
    """Restore the old texts, if there is a journal; returns the files that changed meanwhile."""
    edited = []
    for number, entry in enumerate(_read_journal(folder)[1]):
        path = os.path.join(os.path.dirname(folder), entry["path"])
        old = os.path.join(folder, f"{number}.old")
        now = _read(path)
        if now is not None and _digest(now) == entry["new"]:
            if entry["created"]:
                os.unlink(path)
            else:
                os.replace(old, path)
        elif (entry["created"] or os.path.exists(old)) and now != _read(old):
            edited.append(path)
            if not entry["created"]:
                os.replace(old, free_name(path))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, _JOURNAL))
    shutil.rmtree(folder)
    return edited


def _left_alone(edited: Sequence[str]) -> str:
    listed = "".join(f"\n  {path}" for path in edited)
    return f"changed by something else meanwhile, and kept (the old text is in .orig):{listed}"


def free_name(path: str) -> str:
    """A name beside a file, for its old text."""
    names = (f"{path}.orig{number or ''}" for number in itertools.count())
    return next(name for name in names if not os.path.lexists(name))


# ---- after a kill


def interrupted(paths: Sequence[str]) -> list[str]:
    """What interrupted migrations left for these paths: in their folders, and in those above."""
    here = [Path(_folder(path)) for path in paths]
    above = dict.fromkeys(folder for start in here for folder in (start, *start.parents))
    return [str(folder / FOLDER) for folder in above if os.path.lexists(folder / FOLDER)]


def recover(folder: str) -> str:
    """Put back what was interrupted; says what was done. Only for commands that write.

    Raises `WriteError` if somebody else may have made the folder, to have files changed: if git
    tracks it, if another user owns it, or if a path in it leads elsewhere. Also if the migration
    is still at work, as far as its process id tells.
    """
    folder = os.path.join(os.path.realpath(os.path.dirname(folder)), FOLDER)
    if (why := _distrust(folder)) is not None:
        raise WriteError(f"{folder} is not from a migrate that was interrupted: {why}. Delete it.")
    process, entries = _read_journal(folder)
    if process not in (0, os.getpid()) and _is_alive(process):
        raise WriteError(
            f"another migrate is at work here, process {process} ({folder}). If that is something "
            "else by now, the old files are in that folder: move them back and delete it"
        )
    edited = _put_back(folder)
    said = f"an earlier migrate was interrupted: {count(len(entries), 'file')} put back as before"
    return f"{said}\n{_left_alone(edited)}" if edited else said


def _distrust(folder: str) -> str | None:
    if os.path.islink(folder) or not os.path.isdir(folder):
        return "it is not a folder"
    if hasattr(os, "geteuid") and os.lstat(folder).st_uid != os.geteuid():
        return "it belongs to another user"
    known = git.index(os.path.dirname(folder), [FOLDER])
    if known is None:
        return "git could not be asked about it"
    return "git tracks it" if known else None


def _read_journal(folder: str) -> tuple[int, list[dict[str, Any]]]:
    """The process and the files; nothing if there is no journal. `WriteError` if it is damaged."""
    try:
        content = _read(os.path.join(folder, _JOURNAL))
        if content is None:
            return 0, []
        document = json.loads(content)
        process, entries = document["process"], document["files"]
        if type(process) is not int or not 0 <= process < 2**31:
            raise ValueError(process)
        for entry in entries:
            path = os.path.join(os.path.dirname(folder), entry["path"])
            is_plain = os.path.realpath(path) == path and _is_inside(os.path.dirname(folder), path)
            if not is_plain or type(entry["created"]) is not bool or len(entry["new"]) != 64:
                raise ValueError(path)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise WriteError(
            f"{folder} is damaged, or names files outside of the project. Delete it."
        ) from None
    return process, entries


def _is_inside(root: str, path: str) -> bool:
    return path != root and os.path.commonpath([root, path]) == root


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read(path: str) -> bytes | None:
    try:
        return read_bytes(path)
    except FileNotFoundError:
        return None


def _create(path: str, content: bytes) -> None:
    """Write a file that is not there yet, not even as a link."""
    with open(path, "xb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


# ---- what is read and written


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
