"""The server: what an editor asks and tells, and the answers. Everything else is in `analysis`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from typing import Any

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

from shardlift import __version__
from shardlift.check.rules import all_rules
from shardlift.cli.lsp import messages
from shardlift.cli.lsp.analysis import Analysis
from shardlift.cli.lsp.documents import Document, Files
from shardlift.cli.lsp.facts import facts_of
from shardlift.cli.lsp.messages import NewText
from shardlift.cli.lsp.positions import Positions
from shardlift.rewrite.results import FileResult
from shardlift.source.model import Finding, Span

_PAUSE = 0.15  # seconds without typing before a text is checked
_NOTEBOOKS = types.NotebookDocumentSyncOptions(
    notebook_selector=[
        types.NotebookDocumentFilterWithCells(
            cells=[types.NotebookCellLanguage(language="python")],
            notebook=types.NotebookDocumentFilterNotebookType(notebook_type="jupyter-notebook"),
        )
    ],
    save=True,
)


def start() -> None:
    """Serve one editor on standard input and output, until it says goodbye."""
    EditorSession().server.start_io()


class EditorSession:
    """One editor, and what it has open."""

    def __init__(self) -> None:
        self.server: Any = LanguageServer(
            "shardlift", __version__, notebook_document_sync=_NOTEBOOKS
        )
        self.analysis = Analysis(Files(self._opened))
        self.captures: list[str] = []
        for name, handler in {
            types.INITIALIZE: self.initialize,
            types.TEXT_DOCUMENT_DID_OPEN: self.opened,
            types.TEXT_DOCUMENT_DID_CHANGE: self.changed,
            types.TEXT_DOCUMENT_DID_SAVE: self.saved,
            types.TEXT_DOCUMENT_DID_CLOSE: self.closed,
            types.NOTEBOOK_DOCUMENT_DID_OPEN: self.notebook_opened,
            types.NOTEBOOK_DOCUMENT_DID_CHANGE: self.notebook_changed,
            types.NOTEBOOK_DOCUMENT_DID_SAVE: self.notebook_changed,
            types.NOTEBOOK_DOCUMENT_DID_CLOSE: self.notebook_closed,
            types.TEXT_DOCUMENT_HOVER: self.hover,
            types.TEXT_DOCUMENT_CODE_LENS: self.code_lenses,
        }.items():
            self.server.feature(name)(_plain(handler))
        kinds = [types.CodeActionKind.QuickFix, types.CodeActionKind.RefactorRewrite]
        options = types.CodeActionOptions(code_action_kinds=kinds)
        self.server.feature(types.TEXT_DOCUMENT_CODE_ACTION, options)(_plain(self.code_actions))

    # ---- what the editor tells

    def initialize(self, params: types.InitializeParams) -> None:
        """Take the options of the session: `captures`, a list of patterns."""
        options = params.initialization_options
        given = options.get("captures", []) if isinstance(options, dict) else []
        self.captures = [str(pattern) for pattern in given] if isinstance(given, list) else []

    def opened(self, params: types.DidOpenTextDocumentParams) -> None:
        """Show the findings of a file."""
        self._publish(params.text_document.uri)

    async def changed(self, params: types.DidChangeTextDocumentParams) -> None:
        """Show the findings of a text as soon as the typing pauses."""
        uri = params.text_document.uri
        version = params.text_document.version
        await asyncio.sleep(_PAUSE)
        if self.server.workspace.get_text_document(uri).version == version:
            self._publish(uri)

    def saved(self, params: types.DidSaveTextDocumentParams) -> None:
        """Check again: a new file may be on the disk."""
        self.analysis.forget_listing()
        self._publish(params.text_document.uri)

    def closed(self, params: types.DidCloseTextDocumentParams) -> None:
        """Show nothing any more."""
        self._send(params.text_document.uri, [])

    def notebook_opened(self, params: types.DidOpenNotebookDocumentParams) -> None:
        """Show the findings of all cells."""
        self._publish_notebook(params.notebook_document.uri)

    def notebook_changed(self, params: Any) -> None:
        """Show the findings of all cells: one cell defines what another uses."""
        self._publish_notebook(params.notebook_document.uri)

    def notebook_closed(self, params: types.DidCloseNotebookDocumentParams) -> None:
        """Show nothing any more."""
        for cell in params.cell_text_documents:
            self._send(cell.uri, [])

    # ---- what the editor asks

    def hover(self, params: types.HoverParams) -> types.Hover | None:
        """Explain the rules of the findings at a position."""
        place = types.Range(params.position, params.position)
        uri = params.text_document.uri
        document, cell = self._document(uri)
        here = self._positions(document, cell).span(place, cell)
        findings = [f for f in self._findings_on_lines(document, here) if _meet(f.span, here)]
        if not findings:
            return None
        value = messages.hover(findings)
        content = types.MarkupContent(kind=types.MarkupKind.Markdown, value=value)
        return types.Hover(contents=content)

    def code_actions(self, params: types.CodeActionParams) -> list[types.CodeAction]:
        """Mend, suppress or rewrite what is on the lines of a range."""
        return list(self._actions(params.text_document.uri, params.range))

    def code_lenses(self, params: types.CodeLensParams) -> list[types.CodeLens]:
        """The facts of recorded runs, above their sites."""
        document, cell = self._document(params.text_document.uri)
        config = self.analysis.config(document)
        patterns = [*self.captures, *config.captures]
        if cell is not None or not patterns:
            return []
        lenses = []
        for fact in facts_of(document, config, patterns):
            start = types.Position(fact.line - 1, 0)
            command = types.Command(title=fact.text, command="")
            lenses.append(types.CodeLens(types.Range(start, start), command=command))
        return lenses

    # ---- documents

    def _opened(self, path: str) -> Document | None:
        """The open document of a path."""
        for uri in (*self.server.workspace.notebook_documents, *self._file_uris()):
            if _path(uri) == path:
                return self._document(uri)[0]
        return None

    def _file_uris(self) -> list[str]:
        return [uri for uri in self.server.workspace.text_documents if not self._notebook_of(uri)]

    def _notebook_of(self, uri: str) -> Any:
        return self.server.workspace.get_notebook_document(cell_uri=uri)

    def _document(self, uri: str) -> tuple[Document, int | None]:
        """The document of a file, a notebook or a cell, and the number of the cell."""
        workspace = self.server.workspace
        notebook = workspace.get_notebook_document(notebook_uri=uri) or self._notebook_of(uri)
        if notebook is None:
            return Document(_path(uri), (workspace.get_text_document(uri).source,)), None
        cells = [cell.document for cell in notebook.cells]
        texts = tuple(workspace.get_text_document(cell).source for cell in cells)
        code = tuple(cell.kind == types.NotebookCellKind.Code for cell in notebook.cells)
        path = _path(notebook.uri)
        path = path if path.endswith(".ipynb") else f"{path}.ipynb"
        return Document(path, texts, code), cells.index(uri) + 1 if uri in cells else None

    def _positions(self, document: Document, cell: int | None) -> Positions:
        return Positions(document.text(cell), self.server.workspace.position_encoding)

    def _findings_on_lines(self, document: Document, within: Span) -> list[Finding]:
        return [
            finding
            for finding in self.analysis.check(document).findings
            if finding.span.cell == within.cell
            and finding.span.line <= within.end_line
            and within.line <= finding.span.end_line
        ]

    def _actions(self, uri: str, place: types.Range) -> Iterator[types.CodeAction]:
        document, cell = self._document(uri)
        positions = self._positions(document, cell)
        within = positions.span(place, cell)
        found = self._findings_on_lines(document, within)
        for finding in found:
            of = messages.diagnostic(finding, positions, is_known=False)
            if finding.edits:
                title = f"Mend {finding.code}: {finding.message}"
                yield messages.quick_fix(title, uri, finding.edits, positions, of)
            edit = self.analysis.suppression(document, finding)
            if edit is not None:
                title = f"Suppress {finding.code} on this line"
                yield messages.quick_fix(title, uri, [edit], positions, of)
        if any(all_rules()[f.code].rewritten_as for f in found):
            yield from self._rewrites(uri, document, within)

    def _rewrites(self, uri: str, document: Document, within: Span) -> Iterator[types.CodeAction]:
        def positions_of(text: str) -> Positions:
            return Positions(text, self.server.workspace.position_encoding)

        parts: dict[str, Span | None] = {
            "Rewrite this with shard_map": within,
            "Rewrite all in this file with shard_map": None,
        }
        if document.code is not None:  # one cell uses what another defines
            parts = {"Rewrite all in this notebook with shard_map": None}
        for title, part in parts.items():
            rewrite = self.analysis.rewrite(document, part)
            texts = [
                text for file in rewrite.files for text in self._new_texts(uri, document, file)
            ]
            client = self.server.client_capabilities
            action = messages.rewrite_action(title, texts, rewrite.refused, positions_of, client)
            if action is not None:
                yield action

    def _new_texts(self, uri: str, document: Document, file: FileResult) -> Iterator[NewText]:
        """What becomes of a file, or of the cells of the open notebook."""
        if document.code is None or file.path != document.path:
            yield NewText(uris.from_fs_path(file.path) or file.path, file.before, file.after)
            return
        cells = zip(document.texts, document.cells_of(file.after), strict=True)
        for cell, (before, after) in zip(self._notebook_of(uri).cells, cells, strict=True):
            if before != after:
                yield NewText(cell.document, before, after, is_cell=True)

    # ---- diagnostics

    def _publish(self, uri: str) -> None:
        if self._notebook_of(uri) is not None:
            return
        document, _ = self._document(uri)
        self._publish_document(document, {None: uri})

    def _publish_notebook(self, uri: str) -> None:
        notebook = self.server.workspace.get_notebook_document(notebook_uri=uri)
        if notebook is not None:
            document, _ = self._document(uri)
            places = enumerate(notebook.cells, start=1)
            self._publish_document(document, {number: cell.document for number, cell in places})

    def _publish_document(self, document: Document, places: dict[Any, str]) -> None:
        report = self.analysis.check(document)
        if report.unreadable is not None:
            return  # half a statement: what was found before stays until the text is complete
        known = self.analysis.known(document, report)
        for cell, uri in places.items():
            positions = self._positions(document, cell)
            own = [finding for finding in report.findings if finding.span.cell == cell]
            self._send(uri, [messages.diagnostic(f, positions, f in known) for f in own])

    def _send(self, uri: str, diagnostics: list[types.Diagnostic]) -> None:
        self.server.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri=uri, diagnostics=diagnostics)
        )


def _plain(handler: Any) -> Any:
    """A method as a function: pygls looks at its parameters."""
    if asyncio.iscoroutinefunction(handler):

        async def answer_later(params: Any) -> Any:
            return await handler(params)

        return answer_later

    def answer(params: Any) -> Any:
        return handler(params)

    return answer


def _path(uri: str) -> str:
    """The path of a document; a name of its own for one that was never saved."""
    path = uris.to_fs_path(uri) if uri.startswith("file:") else None
    return os.path.abspath(path) if path else "untitled.py"


def _meet(one: Span, other: Span) -> bool:
    starts = (one.line, one.column) <= (other.end_line, other.end_column)
    return starts and (other.line, other.column) <= (one.end_line, one.end_column)
