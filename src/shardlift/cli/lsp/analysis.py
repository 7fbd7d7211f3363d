"""What a language server says of a document. Nothing is imported or run."""

import asyncio
import difflib
import io
import os
import threading
import tokenize
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from shardlift.check.engine import FileReport, check_file
from shardlift.cli.check_files import failure_text
from shardlift.cli.config import Config, ConfigError, find_config
from shardlift.cli.files import find_files, read_bytes
from shardlift.rewrite.changes import Decisions
from shardlift.rewrite.engine import ProjectMigration
from shardlift.rewrite.results import FileResult
from shardlift.source.edits import split_lines
from shardlift.source.model import Edit, Span
from shardlift.source.project import Project
from shardlift.source.text import read_source

# Set when the request that a thread works for is cancelled.
CANCELLED: ContextVar[threading.Event | None] = ContextVar("CANCELLED", default=None)


def stop_if_cancelled() -> None:
    """End the work for a request that nobody waits for any more."""
    cancelled = CANCELLED.get()
    if cancelled is not None and cancelled.is_set():
        raise asyncio.CancelledError


@dataclass(frozen=True)
class Document:
    """An open file."""

    path: str
    text: str

    @property
    def content(self) -> bytes:
        """What would be in the file if it were saved."""
        content = self.text.encode("utf-8", "surrogatepass")
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
            return self.text.encode(encoding)
        except (SyntaxError, LookupError, UnicodeEncodeError):
            return content


class Files:
    """Files as the editor has them: open documents first, then the disk.

    A rewrite asks for files between its stages, so this is where a cancelled one stops.
    """

    def __init__(self, opened: Callable[[str], Document | None]) -> None:
        """`opened` returns the open document of a path."""
        self._opened = opened

    def read(self, path: str) -> bytes:
        """The content of a file; OSError if there is none."""
        stop_if_cancelled()
        document = self._opened(path)
        return read_bytes(path) if document is None else document.content

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        stop_if_cancelled()
        return self._opened(path) is not None or os.path.exists(path)


@dataclass(frozen=True)
class Rewrite:
    """New texts of files, or the reason why there are none."""

    files: tuple[FileResult, ...] = ()
    refused: str = ""


class Analysis:
    """The documents of one editor session."""

    def __init__(self, files: Files) -> None:
        """`files` gives the content of files, unsaved ones included."""
        self._files = files
        self._listed: dict[Path, list[str]] = {}
        # The last file that was rewritten: the next action is of the same one, as a rule.
        self._migrated: tuple[Any, ProjectMigration] | None = None

    def forget_listing(self) -> None:
        """List the files of projects again: some were created or removed."""
        self._listed.clear()
        self._migrated = None

    def config(self, document: Document) -> Config:
        """The configuration of the project; an unusable one counts as none."""
        try:
            return find_config(Path(document.path))
        except (ConfigError, OSError):
            return Config()

    def check(self, document: Document) -> FileReport:
        """The findings of a document, saved or not."""
        config = self.config(document)
        listed = [path for path in self._project_files(config) if path != document.path]
        own = document.content

        def read(path: str) -> bytes:
            return own if path == document.path else self._files.read(path)

        project = Project(
            [*listed, document.path], lambda path: read_source(path, read(path)), config.settings()
        )
        try:
            return check_file(project, document.path, own, config.rules, may_be_mapped=True)
        except Exception as error:  # a bug in shardlift must not end the session
            return FileReport(document.path, unreadable=failure_text(error))

    def _project_files(self, config: Config) -> list[str]:
        if config.root == Path():
            return []
        if config.root not in self._listed:
            paths = find_files((str(config.root),), excluded=config.excluded())
            self._listed[config.root] = list(map(os.path.abspath, paths))
        return self._listed[config.root]

    def rewrite(self, document: Document, within: Span | None = None) -> Rewrite:
        """What `migrate` makes of a file, or of the places in a part of it."""
        key = (document, self.config(document).settings())
        if self._migrated is None or self._migrated[0] != key:
            project = ProjectMigration(
                [document.path], self._files.read, self._files.exists, settings=key[1]
            )
            self._migrated = key, project
        lines = None if within is None else (within.line, within.end_line)
        migration = self._migrated[1].render(Decisions(lines=lines))
        if migration.changed:
            return Rewrite(migration.changed)
        refused = [change for file in migration.files for change in file.refused]
        reasons = [one.reason for one in refused if lines is None or one.touches(*lines)]
        reasons += [why for _, why in migration.unreadable]
        return Rewrite(refused=reasons[0] if reasons else "there is nothing to rewrite")


def line_edits(before: str, after: str) -> Iterator[Edit]:
    """The edits, of whole lines, that make one text of another."""
    old, new = split_lines(before), split_lines(after)
    # Frequent lines are no anchors (`autojunk`): with them, 3,000 lines take seconds.
    matcher = difflib.SequenceMatcher(None, old, new)
    for tag, start, end, first, last in matcher.get_opcodes():
        if tag != "equal":
            span = Span(start + 1, 0, end + 1, 0)
            yield Edit(_inside(span, old), "".join(new[first:last]))


def _inside(span: Span, lines: list[str]) -> Span:
    """A span that ends in the text, also if the last line has no end."""
    if span.end_line <= len(lines) or (lines and lines[-1].endswith(("\n", "\r"))) or not lines:
        return span
    return replace(span, end_line=len(lines), end_column=len(lines[-1]))
