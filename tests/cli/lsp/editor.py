"""An editor for tests: a client of the language server that runs in another process."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls import uris
from pygls.lsp.client import LanguageClient

TIMEOUT = 60.0  # seconds for one answer

CAPABILITIES = types.ClientCapabilities(
    workspace=types.WorkspaceClientCapabilities(
        workspace_edit=types.WorkspaceEditClientCapabilities(
            document_changes=True, resource_operations=[types.ResourceOperationKind.Create]
        )
    ),
    text_document=types.TextDocumentClientCapabilities(
        code_action=types.CodeActionClientCapabilities(
            data_support=True, resolve_support=types.ClientCodeActionResolveOptions(["edit"])
        )
    ),
)


class Editor:
    """Opens, changes and asks about documents in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client = LanguageClient("tests", "1")
        self.diagnostics: dict[str, list[types.Diagnostic]] = {}
        self.versions: dict[str, int | None] = {}
        self.messages: list[str] = []
        self._published = asyncio.Event()

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def take(params: types.PublishDiagnosticsParams) -> None:
            self.diagnostics[params.uri] = list(params.diagnostics)
            self.versions[params.uri] = params.version
            self._published.set()

        @self.client.feature(types.WINDOW_SHOW_MESSAGE)
        def tell(params: types.ShowMessageParams) -> None:
            self.messages.append(params.message)

    def uri(self, name: str) -> str:
        """The address of a file of the folder."""
        uri = uris.from_fs_path(str(self.folder / name))
        assert uri is not None
        return uri

    async def start(self) -> types.InitializeResult:
        """Start the server, and say hello."""
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = [sys.executable, "-P", "-m", "shardlift", "lsp", "--stdio"]
        await self.client.start_io(*command, cwd=self.folder, env=env)
        hello = types.InitializeParams(capabilities=CAPABILITIES, root_uri=self.uri(""))
        result = await self.ask(self.client.initialize_async(hello))
        self.client.initialized(types.InitializedParams())
        return result

    async def stop(self) -> None:
        """Say goodbye; the server ends by itself."""
        await self.ask(self.client.shutdown_async(None))
        self.client.exit(None)
        server = self.client._server
        assert server is not None
        try:
            assert await asyncio.wait_for(server.wait(), TIMEOUT) == 0
        finally:
            if server.returncode is None:
                server.kill()
            await self.client.stop()

    async def ask(self, answer: Awaitable[Any]) -> Any:
        """An answer, if it comes in time."""
        return await asyncio.wait_for(answer, TIMEOUT)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for diagnostics for which a condition holds."""

        async def wait() -> None:
            while not condition():
                await self._published.wait()
                self._published.clear()

        await asyncio.wait_for(wait(), TIMEOUT)

    async def open(self, name: str, text: str) -> list[types.Diagnostic]:
        """Open a file with a text that may not be saved; returns its first diagnostics."""
        item = types.TextDocumentItem(self.uri(name), "python", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        await self.until(lambda: self.uri(name) in self.diagnostics)
        return self.diagnostics[self.uri(name)]

    def change(self, name: str, version: int, text: str) -> None:
        """Type a new text."""
        document = types.VersionedTextDocumentIdentifier(version=version, uri=self.uri(name))
        changes = [types.TextDocumentContentChangeWholeDocument(text)]
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, changes))

    async def resolve(self, action: types.CodeAction) -> types.CodeAction:
        """The action that was chosen, with its edit."""
        made: types.CodeAction = await self.ask(self.client.code_action_resolve_async(action))
        return made

    async def actions(self, uri: str, line: int, column: int = 0) -> dict[str, types.CodeAction]:
        """The code actions at a position, by title."""
        place = types.Position(line, column)
        params = types.CodeActionParams(
            types.TextDocumentIdentifier(uri),
            types.Range(place, place),
            types.CodeActionContext(diagnostics=[]),
        )
        answer = await self.ask(self.client.text_document_code_action_async(params))
        return {action.title: action for action in answer or []}


def run(folder: Path, session: Callable[[Editor], Awaitable[None]]) -> None:
    """A session from hello to goodbye."""

    async def whole() -> None:
        editor = Editor(folder)
        await editor.start()
        try:
            await session(editor)
        finally:
            await editor.stop()

    asyncio.run(whole())


def applied(text: str, edits: Any) -> str:
    """A text after edits of ASCII lines, as an editor applies them."""
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:k])) for k in range(len(lines) + 1)]
    for edit in sorted(edits, key=lambda e: (e.range.start.line, e.range.start.character))[::-1]:
        start, end = (starts[p.line] + p.character for p in (edit.range.start, edit.range.end))
        text = text[:start] + edit.new_text + text[end:]
    return text
