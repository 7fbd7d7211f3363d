"""What the language server says of a document, without an editor."""

import asyncio
import threading
from pathlib import Path

import pytest

from shardlift.cli.lsp.analysis import CANCELLED, Analysis, Document, Files, line_edits
from shardlift.source.edits import apply_edits
from shardlift.source.model import Span

pytestmark = pytest.mark.usefixtures("many_sites")

PMAP = "import jax\n\nstep = jax.pmap(lambda x: x)\nother = jax.pmap(lambda x: x + 1)\n"


class Editor:
    """An analysis of documents that are open in a folder."""

    def __init__(self, folder: Path) -> None:
        (folder / ".git").mkdir()
        self.folder = folder
        self.documents: dict[str, Document] = {}
        self.analysis = Analysis(Files(self.documents.get))

    def open(self, name: str, text: str) -> Document:
        document = Document(str(self.folder / name), text)
        self.documents[document.path] = document
        return document

    def findings(self, document: Document) -> list[tuple[str, int]]:
        found = self.analysis.check(document).findings
        return [(finding.code, finding.span.line) for finding in found]


@pytest.fixture
def editor(tmp_path: Path) -> Editor:
    return Editor(tmp_path)


def test_the_text_counts_not_the_file(editor: Editor) -> None:
    (editor.folder / "train.py").write_text("x = 1\n")
    document = editor.open("train.py", PMAP)
    assert editor.findings(document) == [("SL201", 3), ("SL201", 4)]
    text = f"# -*- coding: latin-1 -*-\n# é\n{PMAP}"
    assert editor.findings(editor.open("train.py", text))[0] == ("SL201", 5)
    report = editor.analysis.check(editor.open("train.py", "import jax\njax.pmap(\n"))
    assert report.unreadable is not None


def test_names_are_followed_into_other_files_saved_or_not(editor: Editor) -> None:
    (editor.folder / "parallel.py").write_text("x = 1\n")
    user = editor.open("train.py", "from parallel import on_all\n\nstep = on_all(len)\n")
    assert editor.findings(user) == []
    editor.open("parallel.py", "import jax\n\ndef on_all(f):\n    return jax.pmap(f)\n")
    assert editor.findings(user) == [("SL201", 3)]


def test_the_configuration_of_the_project_counts(editor: Editor) -> None:
    document = editor.open("train.py", PMAP)
    (editor.folder / "pyproject.toml").write_text('[tool.shardlift]\nignore = ["SL201"]\n')
    assert editor.findings(document) == []
    (editor.folder / "pyproject.toml").write_text("[tool.shardlift")  # half typed
    assert len(editor.findings(document)) == 2


def _after(rewrite, name: str) -> str:
    (text,) = (file.after for file in rewrite.files if file.path.endswith(name))
    return text


def test_one_place_is_rewritten(editor: Editor) -> None:
    document = editor.open("train.py", PMAP)
    rewrite = editor.analysis.rewrite(document, Span(4, 0, 4, 0))
    assert "step = jax.pmap(lambda x: x)" in _after(rewrite, "train.py")
    assert "other = spmd_map(lambda x: x + 1)" in _after(rewrite, "train.py")


def test_all_places_are_rewritten_with_the_helper(editor: Editor) -> None:
    (editor.folder / "pkg").mkdir()
    (editor.folder / "pkg" / "__init__.py").write_text("")
    document = editor.open("pkg/train.py", PMAP)
    rewrite = editor.analysis.rewrite(document)
    assert "jax.pmap" not in _after(rewrite, "train.py")
    assert "def spmd_map(" in _after(rewrite, "train.py")


def test_what_cannot_be_rewritten_says_why(editor: Editor) -> None:
    document = editor.open("train.py", PMAP)
    assert editor.analysis.rewrite(document, Span(1, 0, 1, 0)).refused == (
        "there is nothing to rewrite"
    )
    strange = editor.open("strange.py", "import jax\nf = jax.pmap(len, global_arg_shapes=s)\n")
    assert "global_arg_shapes" in editor.analysis.rewrite(strange, Span(2, 0, 2, 0)).refused
    broken = editor.open("broken.py", "import jax\njax.pmap(\n")
    assert "line 2" in editor.analysis.rewrite(broken).refused


def test_a_cancelled_rewrite_stops(editor: Editor) -> None:
    document = editor.open("train.py", PMAP)
    cancelled = threading.Event()
    before = CANCELLED.set(cancelled)
    try:
        assert editor.analysis.rewrite(document).files
        cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            editor.analysis.rewrite(editor.open("train.py", PMAP + "x = 1\n"))
    finally:
        CANCELLED.reset(before)


@pytest.mark.parametrize(
    ("before", "after"),
    [("", "a\n"), ("a\n", "a\nb\n"), ("a\nb", "b\nc"), ("a\nb\nc\n", "a\nc\n"), ("a", "a\nb"),
     ("a\r\nb\r\n", "a\r\nc\r\n"), ("\x0ca\nb", "\x0ca\nb\n")],
)  # fmt: skip
def test_line_edits_make_one_text_of_another(before: str, after: str) -> None:
    assert apply_edits(before, line_edits(before, after)) == after
