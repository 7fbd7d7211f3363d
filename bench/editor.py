"""How long an editor waits for `shardlift lsp`: an edit, a code action, a hover, a chosen rewrite.

    python -m bench.editor [LINES]

Opens a generated file with one pmap site per 22 lines, and asks the server as an editor does.
Prints processor seconds of the server, and seconds until the answer; the best of three.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from lsprotocol import types
from tests.cli.lsp.editor import Editor

HEAD = "import functools\n\nimport jax\nimport jax.numpy as jnp\n"
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
LINE = HEAD.count("\n") + 8 + 22 * 5  # of a decorator


async def measure(editor: Editor, text: str) -> None:
    """One line for each thing that an editor asks."""
    await editor.start()
    uri, versions = editor.uri("train.py"), iter(range(2, 99))
    pid = editor.client._server.pid  # type: ignore[union-attr]
    place = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(LINE, 20))

    async def edit() -> None:
        version = next(versions)
        editor.change("train.py", version, f"{text}x_{version} = 1\n")
        await editor.until(lambda: editor.versions[uri] == version)

    async def choose() -> None:
        await edit()  # what was rewritten before does not help
        chosen = (await editor.actions(uri, LINE, 5))["Rewrite this with shard_map"]
        await report("  its edits", lambda: editor.client.code_action_resolve_async(chosen), 1)

    async def report(name: str, ask: Callable[[], Awaitable[Any]], times: int = 3) -> None:
        spent = []
        for _ in range(times):
            cpu, start = _cpu(pid), time.perf_counter()
            await ask()
            spent.append((_cpu(pid) - cpu, time.perf_counter() - start))
        print(f"{name:<24}{min(c for c, _ in spent):8.2f} s{min(s for _, s in spent):8.3f} s")

    await report("open", lambda: editor.open("train.py", text), 1)
    await report("edit", edit)
    await report("code action", lambda: editor.actions(uri, LINE, 5))
    await report("hover", lambda: editor.client.text_document_hover_async(place))
    await report("edit and chosen rewrite", choose)
    await editor.stop()


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    lines = int((*sys.argv[1:], "3005")[0])
    text = HEAD + "".join(SITE.replace("{k}", str(k)) for k in range(lines // SITE.count("\n")))
    print(
        f"{text.count(chr(10))} lines, {text.count('jax.pmap')} sites: CPU, time until the answer"
    )
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Editor(Path(folder)), text))
