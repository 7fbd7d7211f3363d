"""Several files replaced together: whatever happens, the tree is the old one or the new one.

1. A journal at the root of the project names the files.
2. Beside each file lie its new text and its old one: all bytes that will ever be needed.
3. The journal says that placing begins, or a trial.
4. Each new text is renamed over its file.
5. What lies beside is deleted, then the journal.

Until 3, an interruption leaves the old tree. From then on renames alone lead to either tree: what
is interrupted by an error or a signal is put back at once, and what is killed is completed (a
trial: put back) by `recover`. A file that is neither the old one nor the new one was changed by
somebody else, and is left alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")
JOURNAL = ".shardlift-migrate.json"
STAGING, PLACING, TRYING = "staging", "placing", "trying"
_MARKS = (".git", ".hg", "pyproject.toml", "setup.py")
_ABOUT = "shardlift migrate was interrupted; `shardlift migrate --recover` puts the files right"


class WriteError(Exception):
    """Nothing was written; the message says why."""


@dataclass(frozen=True)
class Change:
    """A file, the bytes that it has (None: there is no such file), and those that it gets."""

    path: str
    before: bytes | None
    after: bytes


@dataclass(frozen=True)
class Entry:
    """A file as the journal has it: its real path, and digests of its texts."""

    path: str
    old: str | None
    new: str

    def beside(self, which: str) -> str:
        """Where the old or the new text lies until it is over."""
        folder, name = os.path.split(self.path)
        return os.path.join(folder, f".{name}.shardlift-{which}")

    def now(self) -> str:
        """Which text the file has: ``old``, ``new`` or ``other``."""
        found = digest(_bytes(self.path))
        return "new" if found == self.new else "old" if found == self.old else "other"


def digest(content: bytes | None) -> str | None:
    """What tells one text from another; None of a file that is not there."""
    return None if content is None else hashlib.sha256(content).hexdigest()


def root_of(paths: Sequence[str]) -> str:
    """Where the journal of a migration of these paths lies: the root of the project, if any."""
    folders = [_folder(path) for path in paths]
    common = Path(os.path.commonpath(folders))
    for folder in (common, *common.parents):
        if any((folder / mark).exists() for mark in _MARKS):
            return str(folder)
    return str(common)


def _folder(path: str) -> str:
    full = os.path.abspath(path)
    return full if os.path.isdir(full) else os.path.dirname(full)


# ---- doing


def replace_all(changes: Sequence[Change], root: str) -> None:
    """Make the changes, all of them or none; `WriteError` says why none. See `Transaction`."""
    with _hold_signals(), Transaction(changes, root) as written:
        written.keep()


def during(changes: Sequence[Change], root: str, run: Callable[[], Result]) -> Result:
    """The result of `run`, which may take its time; the changes are made for its length only."""
    with _hold_signals(), Transaction(changes, root, trial=True), _interruptible():
        return run()


class Transaction:
    """A context in which the new texts are in place; left without `keep`, the old ones are again.

    Args:
      changes: what to write. Raises `WriteError`, with nothing changed, if that cannot be done.
      root: the folder of the journal.
      trial: whether `recover` puts back what is killed in the middle; else it completes it.
    """

    def __init__(self, changes: Sequence[Change], root: str, trial: bool = False) -> None:
        self._changes = {os.path.realpath(change.path): change for change in _one_per_file(changes)}
        self._entries = [
            Entry(path, digest(change.before), digest(change.after) or "")
            for path, change in self._changes.items()
        ]
        self._journal = os.path.join(root, JOURNAL)
        self._state = TRYING if trial else PLACING
        self._kept = False

    def __enter__(self) -> Transaction:
        _create(self._journal, STAGING, self._entries)
        try:
            for entry in self._entries:
                self._stage(entry)
            _write_journal(self._journal, self._state, self._entries)
            for entry in self._entries:
                self._place(entry)
        except BaseException:
            undo(self._journal, self._entries)
            raise
        return self

    def keep(self) -> None:
        """The new texts stay."""
        self._kept = True
        _clean(self._journal, self._entries)

    def __exit__(self, *error: object) -> None:
        if not self._kept:
            left = undo(self._journal, self._entries)
            if left:
                raise WriteError(_left_alone(left))

    def _stage(self, entry: Entry) -> None:
        change = self._changes[entry.path]
        try:
            if entry.now() != "old":
                raise WriteError(f"{change.path} has changed since it was read; nothing is written")
            _write_synced(entry.beside("new"), change.after)
            if entry.old is not None:
                os.chmod(entry.beside("new"), os.stat(entry.path).st_mode & 0o7777)
                _second_name(entry.path, entry.beside("old"))
        except OSError as error:
            raise WriteError(f"{change.path} could not be written: {error}") from error

    def _place(self, entry: Entry) -> None:
        path = self._changes[entry.path].path
        if entry.now() != "old":
            raise WriteError(f"{path} has changed since it was read; all is as it was")
        try:
            os.replace(entry.beside("new"), entry.path)
        except OSError as error:
            raise WriteError(f"{path} could not be written: {error}") from error


def _one_per_file(changes: Sequence[Change]) -> list[Change]:
    """One change of each file; of a file and links to it, that of the file itself."""
    found: dict[str, Change] = {}
    for change in changes:
        real = os.path.realpath(change.path)
        if real not in found or os.path.abspath(change.path) == real:
            found[real] = change
    return list(found.values())


def _second_name(path: str, name: str) -> None:
    """The same file by another name; where there are no links, a copy."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name)
    try:
        os.link(path, name)
    except OSError:
        shutil.copy2(path, name)


def undo(journal: str, entries: Sequence[Entry]) -> list[Entry]:
    """The old texts again; those files that were changed by somebody else are returned."""
    others = []
    for entry in entries:
        now = entry.now()
        if now == "new" and entry.old is None:
            os.unlink(entry.path)
        elif now == "new" and os.path.exists(entry.beside("old")):
            os.replace(entry.beside("old"), entry.path)
        elif now == "other":
            others.append(entry)
    _clean(journal, entries, others)
    return others


def complete(journal: str, entries: Sequence[Entry]) -> None:
    """The new texts, wherever the old ones still are."""
    for entry in entries:
        if entry.now() == "old":
            os.replace(entry.beside("new"), entry.path)
    _clean(journal, entries)


def _clean(journal: str, entries: Sequence[Entry], others: Sequence[Entry] = ()) -> None:
    """What lies beside goes, the journal last; the old text of another's file stays."""
    for folder in {os.path.dirname(entry.path) for entry in entries}:
        _sync_folder(folder)
    for entry in entries:
        for which in ("new", "old"):
            if not (which == "old" and entry in others):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(entry.beside(which))
    for name in (_next(journal), journal):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _left_alone(entries: Sequence[Entry]) -> str:
    listed = "".join(
        f"\n  {entry.path}"
        + (f" (before: {entry.beside('old')})" if os.path.exists(entry.beside("old")) else "")
        for entry in entries
    )
    return f"changed by something else meanwhile, and left alone:{listed}"


# ---- after an interruption


def journals(paths: Sequence[str]) -> list[str]:
    """The journals that concern these paths: in their folders, and in those above."""
    found: dict[str, None] = {}
    for path in paths:
        here = Path(_folder(path))
        for folder in (here, *here.parents):
            if (folder / JOURNAL).exists():
                found[str(folder / JOURNAL)] = None
    return list(found)


def recover(journal: str, force: bool = False) -> str:
    """Complete what was interrupted, or put it back; says what was done.

    Raises `WriteError` if the migration is still at work, as far as its process id tells.
    """
    try:
        document = json.loads(Path(journal).read_bytes())
        entries = [Entry(**entry) for entry in document["files"]]
        state, process = document["state"], int(document["process"])
    except (ValueError, KeyError, TypeError):  # killed while it was first written
        _clean(journal, [])
        return "an earlier migrate was interrupted before it wrote anything"
    if not force and process != os.getpid() and _is_alive(process):
        raise WriteError(
            f"another migrate is at work here, process {process} ({journal}). If that is something "
            "else by now: shardlift migrate --recover"
        )
    count = f"{len(entries)} file{'s' * (len(entries) != 1)}"
    with _hold_signals():
        if state == PLACING and all(map(_goes_on, entries)):
            with contextlib.suppress(OSError):
                complete(journal, entries)
                return f"an earlier migrate was interrupted: its change of {count} is completed"
        left = undo(journal, entries)
    said = f"an earlier migrate was interrupted: {count} put back as before"
    return f"{said}\n{_left_alone(left)}" if left else said


def _goes_on(entry: Entry) -> bool:
    """Whether an entry can become new. Who changed a file that was placed, changed the new one."""
    now = entry.now()
    return now == "new" or (now == "old") == os.path.exists(entry.beside("new"))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


# ---- files


def _bytes(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        return None


def _document(state: str, entries: Sequence[Entry]) -> bytes:
    content: dict[str, Any] = {"about": _ABOUT, "state": state, "process": os.getpid()}
    return json.dumps({**content, "files": list(map(asdict, entries))}, indent=1).encode()


def _create(journal: str, state: str, entries: Sequence[Entry]) -> None:
    try:
        _write_synced(journal, _document(state, entries), "xb")
    except FileExistsError:
        raise WriteError(f"another migrate has just begun here: {journal}") from None
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(journal)
        raise WriteError(f"{journal} could not be written: {error}") from error


def _write_journal(journal: str, state: str, entries: Sequence[Entry]) -> None:
    try:
        _write_synced(_next(journal), _document(state, entries))
        os.replace(_next(journal), journal)
    except OSError as error:
        raise WriteError(f"{journal} could not be written: {error}") from error


def _next(journal: str) -> str:
    return f"{journal}-next"


def _write_synced(path: str, content: bytes, mode: str = "wb") -> None:
    with open(path, mode) as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_folder(path: str) -> None:
    """Renames reach the disk before the journal goes; not every system opens folders."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


@contextlib.contextmanager
def _hold_signals() -> Iterator[None]:
    """Signals wait until what takes milliseconds is done."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Signals do not wait; those that end a process raise, as Ctrl-C does."""
    main = threading.current_thread() is threading.main_thread()
    before = {one: signal.signal(one, _end) for one in _SIGNALS[1:] if main}
    try:
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        yield
    finally:
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        for one, handler in before.items():
            signal.signal(one, handler)


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)
