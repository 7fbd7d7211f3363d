"""How long an editor waits for `shardlift lsp`: an edit, a code action, a hover.

    python -m bench.editor [LINES]...

Opens a generated file with one pmap site per 22 lines, in a folder of its own, and asks the server
as an editor does. Seconds, best of three where it is repeated; the goals are for 3,000 lines.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls import uris
from pygls.lsp.client import LanguageClient

SITE = """
def loss_{k}(params, batch):
    x, y = batch
    hidden = jnp.tanh(x @ params["w1"] + params["b1"])
    out = hidden @ params["w2"]
    return jnp.mean((out - y) ** 2)


@functools.partial(jax.pmap, axis_name="batch", donate_argnums=(0,))
def step_{k}(params, batch):
    loss, grads = jax.value_and_grad(loss_{k})(params, batch)
    grads = jax.lax.pmean(grads, axis_name="batch")
    params = jax.tree_map(lambda p, g: p - 0.1 * g, params, grads)
    return params, jax.lax.pmean(loss, axis_name="batch")


def train_{k}(params, batches):
    params = jax.device_put_replicated(params, jax.local_devices())
    for batch in batches:
        params, loss = step_{k}(params, batch)
        print("loss", loss[0])
    return jax.tree_map(lambda x: x[0], params)
"""
HEAD = "import functools\n\nimport jax\nimport jax.numpy as jnp\n"
CAPABILITIES = types.ClientCapabilities(
    text_document=types.TextDocumentClientCapabilities(
        code_action=types.CodeActionClientCapabilities(
            data_support=True, resolve_support=types.ClientCodeActionResolveOptions(["edit"])
        )
    )
)
GOALS = {"edit": 0.2, "code action again": 0.3, "hover": 0.1, "hover during a code action": 0.1}


def text_of(lines: int) -> str:
    """A file of about so many lines."""
    sites = (lines - HEAD.count("\n")) // SITE.count("\n")
    return HEAD + "".join(SITE.replace("{k}", str(k)) for k in range(sites))


class Client:
    """An editor that measures."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.client = LanguageClient("bench", "1")
        self.published: asyncio.Queue[int | None] = asyncio.Queue()

        @self.client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        def take(params: types.PublishDiagnosticsParams) -> None:
            self.published.put_nowait(params.version)

    async def seconds(self, text: str) -> dict[str, float]:
        """How long each thing takes."""
        await self.client.start_io(sys.executable, "-m", "shardlift", "lsp", "--stdio")
        hello = types.InitializeParams(CAPABILITIES, root_uri=_uri(self.folder))
        await self.client.initialize_async(hello)
        self.client.initialized(types.InitializedParams())
        uri = _uri(self.folder / "train.py")
        item = types.TextDocumentItem(uri, types.LanguageKind.Python, 1, text)
        told = {"open": await _timed(self._open(item))}
        line = next(k for k, one in enumerate(text.splitlines()) if "jax.pmap" in one)
        ask = types.CodeActionParams(
            types.TextDocumentIdentifier(uri),
            types.Range(types.Position(line, 5), types.Position(line, 5)),
            types.CodeActionContext([]),
        )
        over = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, 20))
        told["code action"] = await _timed(self.client.text_document_code_action_async(ask))
        told["code action again"] = await self._best(
            lambda: self.client.text_document_code_action_async(ask)
        )
        chosen = next(a for a in await self.client.text_document_code_action_async(ask) if a.data)
        told["the chosen rewrite"] = await _timed(self.client.code_action_resolve_async(chosen))
        told["hover"] = await self._best(lambda: self.client.text_document_hover_async(over))
        told["edit"] = min([await _timed(self._edit(uri, v)) for v in (2, 3, 4)]) - 0.15
        pending = asyncio.ensure_future(self.client.text_document_code_action_async(ask))
        await asyncio.sleep(0.02)
        told["hover during a code action"] = await _timed(
            self.client.text_document_hover_async(over)
        )
        told["code action after an edit"] = await _timed(pending)
        await self.client.shutdown_async(None)
        self.client.exit(None)
        await self.client.stop()
        return told

    async def _open(self, item: types.TextDocumentItem) -> None:
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        await self.published.get()

    async def _edit(self, uri: str, version: int) -> None:
        start = types.Position(3, 0)
        change = types.TextDocumentContentChangePartial(types.Range(start, start), "x = 1\n")
        document = types.VersionedTextDocumentIdentifier(version, uri)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
        await self.published.get()

    async def _best(self, ask: Any) -> float:
        return min([await _timed(ask()) for _ in range(3)])


async def _timed(work: Awaitable[Any]) -> float:
    start = time.perf_counter()
    await work
    return time.perf_counter() - start


def _uri(path: Path) -> str:
    return uris.from_fs_path(str(path)) or ""


def main() -> None:
    """Print the seconds for files of several lengths."""
    for lines in map(int, sys.argv[1:] or ("305", "1003", "3005")):
        with tempfile.TemporaryDirectory() as folder:
            told = asyncio.run(Client(Path(folder)).seconds(text_of(lines)))
        print(f"{lines} lines, {text_of(lines).count('jax.pmap')} sites")
        for name, seconds in told.items():
            goal = f"   goal {GOALS[name]}" if name in GOALS else ""
            print(f"  {name:<28}{seconds:8.3f}{goal}")


if __name__ == "__main__":
    main()
