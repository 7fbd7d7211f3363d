"""The server: what an editor asks and tells, and the answers. Everything else is in `analysis`."""

import asyncio
import gc
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

from shardlift import __version__
from shardlift.check.engine import FileReport
from shardlift.check.rules import all_rules
from shardlift.cli.lsp import messages
from shardlift.cli.lsp.analysis import CANCELLED, Analysis, Document, Files
from shardlift.cli.lsp.messages import Positions
from shardlift.source.model import Finding, Span

_PAUSE = 0.15  # seconds without typing before a text is checked


def start() -> None:
    """Serve one editor on standard input and output, until it says goodbye."""
    # A syntax tree is thousands of small objects without cycles that cost: with the defaults a
    # third of the time of a check, and half of a rewrite, goes into looking for them.
    gc.set_threshold(100_000, 50, 100)
    EditorSession().server.start_io()


class EditorSession:
    """One editor, and what it has open."""

    def __init__(self) -> None:
        self.server: Any = LanguageServer("shardlift", __version__)
        self.analysis = Analysis(Files(self._opened))
        self._changes = 0  # of open documents, since the session began
        # By path: the text that was last checked, after how many changes, and the findings.
        self._reports: dict[str, tuple[Document, int, FileReport]] = {}
        handlers: dict[str, Callable[..., Any]] = {
            types.TEXT_DOCUMENT_DID_OPEN: self.opened,
            types.TEXT_DOCUMENT_DID_CHANGE: self.changed,
            types.TEXT_DOCUMENT_DID_SAVE: self.saved,
            types.TEXT_DOCUMENT_DID_CLOSE: self.closed,
            types.TEXT_DOCUMENT_HOVER: self.hover,
            types.CODE_ACTION_RESOLVE: self.resolve,
        }
        for name, handler in handlers.items():
            self.server.feature(name)(partial(handler))
        kinds = [types.CodeActionKind.QuickFix, types.CodeActionKind.RefactorRewrite]
        options = types.CodeActionOptions(code_action_kinds=kinds, resolve_provider=True)
        self.server.feature(types.TEXT_DOCUMENT_CODE_ACTION, options)(partial(self.code_actions))

    # ---- what the editor tells

    async def opened(self, params: types.DidOpenTextDocumentParams) -> None:
        """Show the findings of a file."""
        await self._publish(params.text_document.uri)

    async def changed(self, params: types.DidChangeTextDocumentParams) -> None:
        """Show the findings of a text as soon as the typing pauses."""
        uri = params.text_document.uri
        version = params.text_document.version
        await asyncio.sleep(_PAUSE)
        if self._version(uri) == version:
            await self._publish(uri)

    async def saved(self, params: types.DidSaveTextDocumentParams) -> None:
        """Check again: a new file may be on the disk."""
        self.analysis.forget_listing()
        await self._publish(params.text_document.uri)

    def closed(self, params: types.DidCloseTextDocumentParams) -> None:
        """Show nothing any more."""
        self._reports.pop(_path(params.text_document.uri), None)
        self._send(params.text_document.uri, [])

    # ---- what the editor asks

    def hover(self, params: types.HoverParams) -> types.Hover | None:
        """Explain the rules of the findings at a position."""
        place = types.Range(params.position, params.position)
        document = self._document(params.text_document.uri)
        here = self._positions(document).span(place)
        # What the editor shows: if the text has changed since, a check is under way.
        last = self._reports.get(document.path)
        report = last[2] if last is not None else self._report(document)
        findings = [f for f in _on_lines(report, here) if _meet(f.span, here)]
        if not findings:
            return None
        value = messages.hover(findings)
        content = types.MarkupContent(kind=types.MarkupKind.Markdown, value=value)
        return types.Hover(contents=content)

    async def code_actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """Mend or rewrite what is on the lines of a range."""
        uri = params.text_document.uri
        document = self._document(uri)
        report = await _in_thread(self._report, document)
        positions = self._positions(document)
        within = positions.span(params.range)
        findings = _on_lines(report, within)
        actions = [messages.quick_fix(uri, f, positions) for f in findings if f.edits]
        if any(all_rules()[finding.code].rewritten_as for finding in findings):
            for title, lines in {
                "Rewrite this with shard_map": (within.line, within.end_line),
                "Rewrite all in this file with shard_map": None,
            }.items():
                action = types.CodeAction(title, types.CodeActionKind.RefactorRewrite)
                action.data = {"uri": uri, "lines": lines}
                actions.append(action)
        return actions

    async def resolve(self, action: types.CodeAction) -> types.CodeAction:
        """Make the rewrite that was chosen; if there is none, say why."""
        data: Any = action.data
        if data is None:
            return action
        lines = data.get("lines")  # null may be dropped on the way
        part = Span(lines[0], 0, lines[1], 0) if lines else None
        rewrite = await _in_thread(self.analysis.rewrite, self._document(data["uri"]), part)
        if rewrite.refused:
            text = f"shardlift: {rewrite.refused}"
            message = types.ShowMessageParams(types.MessageType.Info, text)
            self.server.window_show_message(message)
            return action
        texts = [
            (uris.from_fs_path(file.path) or file.path, file.before, file.after)
            for file in rewrite.files
        ]
        codec = self.server.workspace.position_codec
        edit = messages.rewrite_edit(texts, lambda text: Positions(text, codec))
        return types.CodeAction(action.title, action.kind, edit=edit)

    # ---- documents

    def _opened(self, path: str) -> Document | None:
        """The open document of a path."""
        opened = list(self.server.workspace.text_documents)
        return next((self._document(uri) for uri in opened if _path(uri) == path), None)

    def _document(self, uri: str) -> Document:
        return Document(_path(uri), self.server.workspace.get_text_document(uri).source)

    def _positions(self, document: Document) -> Positions:
        return Positions(document.text, self.server.workspace.position_codec)

    def _version(self, uri: str) -> int | None:
        version: int | None = self.server.workspace.get_text_document(uri).version
        return version

    def _report(self, document: Document) -> FileReport:
        """The findings of a document: the earlier ones if nothing has changed since."""
        last = self._reports.get(document.path)
        if last is None or last[:2] != (document, self._changes):
            last = document, self._changes, self.analysis.check(document)
            self._reports[document.path] = last
        return last[2]

    # ---- diagnostics

    async def _publish(self, uri: str) -> None:
        self._changes += 1
        document, version = self._document(uri), self._version(uri)
        report = await _in_thread(self._report, document)
        if report.unreadable is not None:
            return  # half a statement: what was found before stays until the text is complete
        if self._document(uri) != document:
            return  # changed meanwhile: the next check has begun
        positions = self._positions(document)
        shown = [messages.diagnostic(f, positions) for f in report.findings]
        self._send(uri, shown, version)

    def _send(
        self, uri: str, diagnostics: list[types.Diagnostic], version: int | None = None
    ) -> None:
        self.server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri, diagnostics, version)
        )


async def _in_thread(work: Callable[..., Any], *arguments: Any) -> Any:
    """Work in a thread, which stops at its next stage if the editor cancels the request."""
    cancelled = threading.Event()
    CANCELLED.set(cancelled)
    try:
        return await asyncio.to_thread(work, *arguments)
    except asyncio.CancelledError:
        cancelled.set()
        raise


def _on_lines(report: FileReport, within: Span) -> list[Finding]:
    return [
        finding
        for finding in report.findings
        if finding.span.line <= within.end_line and within.line <= finding.span.end_line
    ]


def _path(uri: str) -> str:
    """The path of a document; a name of its own for one that was never saved."""
    path = uris.to_fs_path(uri) if uri.startswith("file:") else None
    return os.path.abspath(path) if path else "untitled.py"


def _meet(first: Span, other: Span) -> bool:
    starts = (first.line, first.column) <= (other.end_line, other.end_column)
    return starts and (other.line, other.column) <= (first.end_line, first.end_column)
