"""The language server, as an editor talks to it."""

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
    """Positions are counted as the editor does: in units of UTF-16."""

    async def session(editor: Editor) -> None:
        uri = editor.uri("train.py")
        first = await editor.open("train.py", PMAP)
        assert _lines(first) == [("SL201", 2), ("SL201", 3)]
        assert first[0].range.end.character == len("step = jax.pmap(lambda x: x)")
        assert first[0].severity == types.DiagnosticSeverity.Information
        assert first[0].message.startswith("a lambda is pmapped. ")
        editor.change("train.py", 2, "import jax\njax.pmap(")  # half typed: nothing is said
        editor.change("train.py", 3, "import jax\ns = '\N{ROCKET}'; x = jax.tree_map(f, y)\n")
        await editor.until(lambda: _lines(editor.diagnostics[uri]) == [("SL105", 1)])
        (removed,) = editor.diagnostics[uri]
        assert (removed.severity, editor.versions[uri]) == (types.DiagnosticSeverity.Error, 3)
        assert list(removed.tags or ()) == [types.DiagnosticTag.Deprecated]
        assert removed.range.start == types.Position(1, len("s = 'xx'; x = "))
        closed = types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri))
        editor.client.text_document_did_close(closed)
        await editor.until(lambda: not editor.diagnostics[uri])
        assert not (folder / "train.py").exists()

    run(folder, session)


TEXT = f"""{PMAP}x = jax.tree_map(f, y)
f = jax.pmap(len, global_arg_shapes=s)
r = jax.device_put_replicated(x, jax.devices())
d = jax.device_put_sharded([x, x], jax.devices())
"""


def test_what_is_explained_and_mended(folder: Path) -> None:
    """Nothing is rewritten to list the actions; the editor writes the files."""
    (folder / "pkg").mkdir()
    (folder / "pkg" / "__init__.py").write_text("")

    async def session(editor: Editor) -> None:
        name, uri = "pkg/train.py", editor.uri("pkg/train.py")
        await editor.open(name, TEXT)
        document = types.TextDocumentIdentifier(uri)
        places = [types.HoverParams(document, types.Position(2, column)) for column in (2, 12)]
        ask = editor.client.text_document_hover_async
        nothing, shown = [await editor.ask(ask(place)) for place in places]
        assert nothing is None
        assert shown.contents.value.startswith("**SL201 ")
        assert "What to do: " in shown.contents.value

        mends = await editor.actions(uri, 4, 6)
        (mend,) = (action for title, action in mends.items() if title.startswith("Mend SL105"))
        assert "\nx = jax.tree.map(f, y)\n" in applied(TEXT, mend.edit.changes[uri])

        actions = await editor.actions(uri, 2, 10)
        assert [action.edit for action in actions.values()] == [None, None]
        for title, other in (
            ("Rewrite this with shard_map", "other = jax.pmap(lambda x: x + 1)"),
            ("Rewrite all in this file with shard_map", "other = spmd_map(lambda x: x + 1)"),
        ):
            made = await editor.resolve(actions[title])
            *module, own = made.edit.document_changes
            after = applied(TEXT, own.edits)
            assert f"step = spmd_map(lambda x: x)\n{other}\n" in after
            if module:  # of several helpers
                created, helpers = module
                assert isinstance(created, types.CreateFile)
                assert created.uri == editor.uri("pkg/_spmd.py")
                assert "def spmd_map(" in applied("", helpers.edits)
                assert "from pkg._spmd import" in after
        assert module
        assert not (folder / "pkg" / "_spmd.py").exists()

        actions = await editor.actions(uri, 5, 8)
        assert (await editor.resolve(actions["Rewrite this with shard_map"])).edit is None
        assert "global_arg_shapes" in editor.messages[-1]

    run(folder, session)


def test_nothing_of_the_folder_is_executed(folder: Path) -> None:
    trap = "open('trace', 'w').close()\n"
    for name in ("jax.py", "pygls.py", "json.py", "shardlift.py", "conftest.py", "setup.py"):
        (folder / name).write_text(trap)

    async def session(editor: Editor) -> None:
        assert len(await editor.open("train.py", trap + PMAP)) == 2
        await editor.actions(editor.uri("train.py"), 3)

    run(folder, session)
    assert not (folder / "trace").exists()
