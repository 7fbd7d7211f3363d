"""Several files replaced together: after an error or a signal the tree is the old one again.

The old texts are kept in a folder at the root of the project, under the paths of their files, until
all new ones are in place. A command that is killed leaves that folder; nothing is read from it, and
no other command writes, until a person has put the texts back and deleted it.
"""

import contextlib
import io
import itertools
import os
import shlex
import shutil
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from shardlift._files import replace_file
from shardlift.cli import git
from shardlift.cli.files import OLD_TEXTS, read_bytes
from shardlift.cli.stop import end_by_exception

_MARKS = (".git", ".hg", "pyproject.toml", "setup.py")


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


def killed_before(paths: Sequence[str]) -> str | None:
    """What to do about a command that was killed while it replaced files; None if none was."""
    for start in map(Path, map(_folder, paths)):
        for folder in (start, *start.parents):
            if os.path.lexists(old := folder / OLD_TEXTS):
                names = [shlex.quote(str(name)) for name in (old, folder)]
                return (
                    f"{old} is there: another migrate is at work, or was killed. If it was killed, "
                    f"the old texts of its files are there: cp -af {names[0]}/. {names[1]} puts "
                    f"them back. Then delete {old}."
                )
    return None


def replace_all(replacements: Sequence[Replacement], root: str) -> None:
    """Replace the files, all of them or none; `WriteError` says why none."""
    with replaced(replacements, root) as old:
        done = f"{old}.{os.getpid()}"
        os.rename(old, done)  # in one step: there is never only a part of the old texts
        shutil.rmtree(done, ignore_errors=True)


@contextlib.contextmanager
def replaced(replacements: Sequence[Replacement], root: str) -> Iterator[str]:
    """The new texts are in place; afterwards the old ones are, unless their folder is gone."""
    root = os.path.realpath(root)
    old = os.path.join(root, OLD_TEXTS)
    given = _below(root, replacements)
    staged, is_ours, edited = f"{old}.{os.getpid()}", False, list[str]()
    with end_by_exception():
        try:
            try:
                _keep_old_texts(staged, root, given)
                if (killed := killed_before([root])) is not None:
                    raise WriteError(killed)
                is_ours = True
                os.rename(staged, old)
                for relative, replacement in given.items():
                    replace_file(os.path.join(root, relative), replacement.after)
            except OSError as error:
                said = f"{error.filename or old} could not be written: {error}"
                raise WriteError(said) from error
            yield old
        finally:
            shutil.rmtree(staged, ignore_errors=True)
            if is_ours and os.path.exists(old):
                edited = _put_back(root, old, given)
    if edited:
        listed = "".join(f"\n  {path}" for path in edited)
        raise WriteError(
            f"changed by something else meanwhile, and kept (the old text is in .orig):{listed}"
        )


def _keep_old_texts(folder: str, root: str, given: dict[str, Replacement]) -> None:
    """Copy each file, which still has to be what was read, to its place in a new folder."""
    os.mkdir(folder, 0o700)
    for relative, replacement in given.items():
        path, copy = os.path.join(root, relative), os.path.join(folder, relative)
        if _read(path) != replacement.before:
            raise WriteError(f"{replacement.path} has changed since it was read")
        if replacement.before is not None:
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            shutil.copy2(path, copy)


def _below(root: str, replacements: Sequence[Replacement]) -> dict[str, Replacement]:
    """What to write by its real path below the root; of a file and links to it, the file's own."""
    given = {}
    for replacement in sorted(replacements, key=lambda one: not os.path.islink(one.path)):
        path, real = replacement.path, os.path.realpath(replacement.path)
        if real == root or os.path.commonpath([root, real]) != root:
            raise WriteError(f"{path} is {real}, outside of the project {root}; nothing is written")
        given[os.path.relpath(real, root)] = replacement
    return given


def _put_back(root: str, old: str, given: dict[str, Replacement]) -> list[str]:
    """Restore the old texts; returns the files that changed meanwhile."""
    edited = []
    for relative, replacement in given.items():
        path, kept = os.path.join(root, relative), os.path.join(old, relative)
        now = _read(path)
        if now == replacement.before:
            continue
        if now != replacement.after:
            edited.append(path)
        if replacement.before is not None:
            os.replace(kept, path if now == replacement.after else free_name(path))
        elif now == replacement.after:
            os.unlink(path)
    shutil.rmtree(old)
    return edited


def free_name(path: str) -> str:
    """A name beside a file, for its old text."""
    names = (f"{path}.orig{number or ''}" for number in itertools.count())
    return next(name for name in names if not os.path.lexists(name))


def _read(path: str) -> bytes | None:
    try:
        return read_bytes(path)
    except FileNotFoundError:
        return None


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
