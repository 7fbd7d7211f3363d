"""What a language server says of a document. Nothing is imported or run."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from shardlift.check.engine import FileReport, RuleSelection, check_file
from shardlift.cli.check_baseline import find_baseline
from shardlift.cli.check_pool import failure_text
from shardlift.cli.config import Config, ConfigError, find_config
from shardlift.cli.files import find_files
from shardlift.cli.lsp.documents import Document, Files
from shardlift.rewrite.changes import Change, Decisions
from shardlift.rewrite.engine import ProjectMigration
from shardlift.rewrite.results import FileResult, Migration
from shardlift.source.edits import LINE_END, split_lines
from shardlift.source.model import Edit, Finding, Span
from shardlift.source.project import Project
from shardlift.source.text import read_source

_NOQA = re.compile(r"#\s*noqa\s*:\s*[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*", re.IGNORECASE)


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

    def forget_listing(self) -> None:
        """List the files of projects again: some were created or removed."""
        self._listed.clear()

    def config(self, document: Document) -> Config:
        """The configuration of the project; an unusable one counts as none."""
        try:
            return find_config(Path(document.path))
        except (ConfigError, OSError):
            return Config()

    def check(self, document: Document) -> FileReport:
        """The findings of a document, saved or not."""
        config = self.config(document)
        options = RuleSelection(config.select or ("SL",), config.ignore, config.per_file_ignores)
        listed = [path for path in self._project_files(config) if path != document.path]
        own = document.content

        def read(path: str) -> bytes:
            return own if path == document.path else self._files.read(path)

        project = Project(
            [*listed, document.path],
            lambda path: read_source(path, read(path)),
            config.settings(),
        )
        try:
            return check_file(project, document.path, own, options, parse_always=True)
        except Exception as error:  # a bug in shardlift must not end the session
            return FileReport(document.path, unreadable=failure_text(error))

    def known(self, document: Document, report: FileReport) -> frozenset[Finding]:
        """The findings that are in the baseline of the project."""
        config = self.config(document)
        try:
            baseline = find_baseline(config, None, ())
        except ConfigError:
            return frozenset()
        if baseline is None:
            return frozenset()
        new = baseline.baseline.new(report.findings, baseline.relative)
        return frozenset(report.findings) - frozenset(new)

    def _project_files(self, config: Config) -> list[str]:
        if config.root == Path():
            return []
        if config.root not in self._listed:
            found = find_files((str(config.root),), excluded=config.excluded())
            self._listed[config.root] = list(map(os.path.abspath, found))
        return self._listed[config.root]

    def rewrite(self, document: Document, within: Span | None = None) -> Rewrite:
        """What `migrate` makes of a file, or of the places in a part of it."""
        project = ProjectMigration(
            [document.path],
            self._files.read,
            self._files.exists,
            settings=self.config(document).settings(),
        )
        whole = project.render()
        own = next((file for file in whole.files if file.path == document.path), None)
        if own is None:
            reasons = [why for _, why in whole.unreadable]
            return Rewrite(refused=reasons[0] if reasons else "there is nothing to rewrite")
        if within is None:
            return _rewrite(whole, own.refused)
        chosen = {change.id for change in own.rewritten if _touches(change, within)}
        refused = [change for change in own.refused if _touches(change, within)]
        if not chosen:
            return Rewrite(refused=refused[0].reason if refused else "there is nothing to rewrite")
        left = {change.id: "not chosen" for change in own.rewritten if change.id not in chosen}
        return _rewrite(project.render(Decisions(left=left)), refused)

    def suppression(self, document: Document, finding: Finding) -> Edit | None:
        """The edit that suppresses a finding; None if a comment would break the code."""
        before = _keys(self.check(document))
        for line in dict.fromkeys((finding.span.line, finding.span.end_line)):
            cell = finding.span.cell
            lines = split_lines(document.text(cell))
            edit = _comment(lines, line, finding.code, cell)
            report = self.check(_with_edit(document, edit))
            after = _keys(report)
            if report.unreadable is None and after < before and _key(finding) not in after:
                return edit
        return None


def _keys(report: FileReport) -> set[tuple[str, Span]]:
    return {_key(finding) for finding in report.findings}


def _key(finding: Finding) -> tuple[str, Span]:
    return finding.code, finding.span


def _rewrite(migration: Migration, refused: tuple[Change, ...] | list[Change]) -> Rewrite:
    if not migration.changed:
        return Rewrite(refused=refused[0].reason if refused else "there is nothing to rewrite")
    return Rewrite(migration.changed)


def _touches(change: Change, within: Span) -> bool:
    lines = [(change.span.line, change.span.end_line), *change.sites]
    return any(first <= within.end_line and within.line <= last for first, last in lines)


def _comment(lines: list[str], line: int, code: str, cell: int | None) -> Edit:
    """A noqa comment at the end of a line, or one more code in the comment that is there."""
    text = LINE_END.sub("", lines[line - 1])
    comment = _NOQA.search(text)
    column = comment.end() if comment else len(text.rstrip())
    added = f", {code}" if comment else f"  # noqa: {code}"
    return Edit(Span(line, column, line, column if comment else len(text), cell), added)


def _with_edit(document: Document, edit: Edit) -> Document:
    text = document.text(edit.span.cell)
    lines = split_lines(text)
    line = lines[edit.span.line - 1]
    changed = line[: edit.span.column] + edit.replacement + line[edit.span.end_column :]
    lines[edit.span.line - 1] = changed
    return document.with_text(edit.span.cell, "".join(lines))


def line_edits(before: str, after: str) -> Iterator[Edit]:
    """The edits, of whole lines, that make one text of another."""
    old, new = split_lines(before), split_lines(after)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, start, end, first, last in matcher.get_opcodes():
        if tag != "equal":
            span = Span(start + 1, 0, end + 1, 0)
            yield Edit(_inside(span, old), "".join(new[first:last]))


def _inside(span: Span, lines: list[str]) -> Span:
    """A span that ends in the text, also if the last line has no end."""
    if span.end_line <= len(lines) or (lines and lines[-1].endswith(("\n", "\r"))) or not lines:
        return span
    return replace(span, end_line=len(lines), end_column=len(lines[-1]))
