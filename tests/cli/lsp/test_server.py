"""The language server, as an editor talks to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls")

from lsprotocol import types

from tests.cli.lsp.editor import Editor, applied, run

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.libraries,
    pytest.mark.filterwarnings("default"),
    pytest.mark.usefixtures("many_sites"),
]

PMAP = "import jax\n\nstep = jax.pmap(lambda x: x)\nother = jax.pmap(lambda x: x + 1)\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    return tmp_path


def _lines(diagnostics: list[types.Diagnostic]) -> list[tuple[Any, int]]:
    return [(d.code, d.range.start.line) for d in diagnostics]


def test_diagnostics_follow_the_text(folder: Path) -> None:
    async def session(editor: Editor) -> None:
        uri = editor.uri("train.py")
        first = await editor.open("train.py", PMAP)
        assert _lines(first) == [("SL201", 2), ("SL201", 3)]
        assert first[0].range.end.character == len("step = jax.pmap(lambda x: x)")
        assert first[0].severity == types.DiagnosticSeverity.Information
        assert first[0].message.startswith("a lambda is pmapped. ")
        editor.change("train.py", 2, "import jax\njax.pmap(")  # half typed: nothing is said
        editor.change("train.py", 3, "import jax\nx = jax.tree_map(f, y)\n")
        await editor.until(lambda: _lines(editor.diagnostics[uri]) == [("SL105", 1)])
        (removed,) = editor.diagnostics[uri]
        assert removed.severity == types.DiagnosticSeverity.Error
        assert list(removed.tags or ()) == [types.DiagnosticTag.Deprecated]
        closed = types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri))
        editor.client.text_document_did_close(closed)
        await editor.until(lambda: not editor.diagnostics[uri])
        assert not (folder / "train.py").exists()

    run(folder, session)


def test_positions_are_counted_as_the_editor_does(folder: Path) -> None:
    text = "import jax\ns = '\N{ROCKET}'; f = jax.pmap(len)\n"

    async def session(editor: Editor) -> None:
        (found,) = await editor.open("train.py", text)
        assert found.range.start == types.Position(1, len("s = 'xx'; f = "))  # UTF-16

    run(folder, session)


def test_hover_explains_the_rule(folder: Path) -> None:
    async def session(editor: Editor) -> None:
        await editor.open("train.py", PMAP)
        document = types.TextDocumentIdentifier(editor.uri("train.py"))
        before = types.HoverParams(document, types.Position(2, 2))
        assert await editor.ask(editor.client.text_document_hover_async(before)) is None
        at = types.HoverParams(document, types.Position(2, 12))
        shown = await editor.ask(editor.client.text_document_hover_async(at))
        assert shown.contents.value.startswith("**SL201 ")
        assert "What to do: " in shown.contents.value

    run(folder, session)


def test_one_pmap_is_rewritten_or_all(folder: Path) -> None:
    """Nothing is rewritten to list the actions, and diagnostics say which version they are of."""

    async def session(editor: Editor) -> None:
        uri = editor.uri("train.py")
        await editor.open("train.py", "import jax\n")
        editor.change("train.py", 7, PMAP)
        await editor.until(lambda: editor.versions[uri] == 7)
        assert _lines(editor.diagnostics[uri]) == [("SL201", 2), ("SL201", 3)]
        actions = await editor.actions(uri, 2, 10)
        assert [action.edit for action in actions.values()] == [None, None]
        one = _after(await editor.resolve(actions["Rewrite this with shard_map"]), PMAP)
        assert "step = spmd_map(lambda x: x)\nother = jax.pmap(lambda x: x + 1)\n" in one
        whole = _after(
            await editor.resolve(actions["Rewrite all in this file with shard_map"]), PMAP
        )
        assert "step = spmd_map(lambda x: x)\nother = spmd_map(lambda x: x + 1)\n" in whole

    run(folder, session)


def _after(action: types.CodeAction, text: str) -> str:
    """The text after an action that changes one file."""
    assert action.edit is not None
    (change,) = action.edit.document_changes
    return applied(text, change.edits)


def test_a_removed_name_is_mended(folder: Path) -> None:
    text = "import jax\nx = jax.tree_map(f, y)\n"

    async def session(editor: Editor) -> None:
        await editor.open("train.py", text)
        actions = await editor.actions(editor.uri("train.py"), 1, 6)
        (mend,) = (action for title, action in actions.items() if title.startswith("Mend SL105"))
        edits = mend.edit.changes[editor.uri("train.py")]
        assert applied(text, edits) == "import jax\nx = jax.tree.map(f, y)\n"

    run(folder, session)


def _package(folder: Path) -> None:
    (folder / "pkg").mkdir()
    (folder / "pkg" / "__init__.py").write_text("")


def test_a_rewrite_creates_the_module_of_helpers(folder: Path) -> None:
    _package(folder)

    async def session(editor: Editor) -> None:
        await editor.open("pkg/train.py", PMAP)
        actions = await editor.actions(editor.uri("pkg/train.py"), 2)
        made = await editor.resolve(actions["Rewrite all in this file with shard_map"])
        assert made.edit is not None
        changes = made.edit.document_changes
        created, helpers, own = changes
        assert isinstance(created, types.CreateFile)
        assert created.uri == editor.uri("pkg/_spmd.py")
        assert "def spmd_map(" in applied("", helpers.edits)
        assert "from pkg._spmd import spmd_map" in applied(PMAP, own.edits)
        assert not (folder / "pkg" / "_spmd.py").exists()  # the editor writes, not the server

    run(folder, session)


def test_a_site_that_cannot_be_rewritten_says_why(folder: Path) -> None:
    async def session(editor: Editor) -> None:
        await editor.open("train.py", "import jax\nf = jax.pmap(len, global_arg_shapes=s)\n")
        actions = await editor.actions(editor.uri("train.py"), 1, 8)
        chosen = await editor.resolve(actions["Rewrite this with shard_map"])
        assert chosen.edit is None
        assert "global_arg_shapes" in editor.messages[-1]

    run(folder, session)


def test_nothing_of_the_folder_is_executed(folder: Path) -> None:
    trap = "open('trace', 'w').close()\n"
    for name in ("jax.py", "pygls.py", "json.py", "shardlift.py", "conftest.py", "setup.py"):
        (folder / name).write_text(trap)

    async def session(editor: Editor) -> None:
        text = trap + PMAP
        assert len(await editor.open("train.py", text)) == 2
        await editor.actions(editor.uri("train.py"), 3)

    run(folder, session)
    assert not (folder / "trace").exists()
