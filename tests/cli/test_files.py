"""Finding files, and what .gitignore leaves out."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlift.cli.files import Passed, find_files


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    for name in ("a.py", "b.gen.py", "lib/c.py", "lib/build/d.py", "lib/deep/e.py", "note.ipynb"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def _names(tree: Path, path: str = ".") -> list[str]:
    return [Path(name).name for name in find_files((path,))]


ALL = ["a.py", "b.gen.py", "d.py", "c.py", "e.py", "note.ipynb"]


@pytest.mark.parametrize(
    ("patterns", "left_out"),
    [
        ("", ()),
        ("*.gen.py", ("b.gen.py",)),
        ("*.gen.py\n!b.gen.py", ()),
        ("build/", ("d.py",)),
        ("/build/", ()),
        ("lib/*/", ("d.py", "e.py")),
        ("lib/**/e.py", ("e.py",)),
        ("lib\n!lib/c.py", ("d.py", "c.py", "e.py")),  # git does not look into an ignored folder
        ("[a-b].py\n[z-a]\n!\n", ("a.py",)),
        ("\\a.py", ("a.py",)),
        ("a.py   ", ("a.py",)),
        ("# a.py", ()),
        ("\\#.py\n!\na.py", ("a.py",)),
        ("*\n!*/\n!a.py", ("b.gen.py", "d.py", "c.py", "e.py", "note.ipynb")),
        ("*.py\n!lib/", ("a.py", "b.gen.py", "d.py", "c.py", "e.py")),
        ("lib/**", ("d.py", "c.py", "e.py")),
        ("lib/**/", ("d.py", "e.py")),
        ("**/deep/**/e.py", ("e.py",)),
        ("lib/**/**/*/**/e.py", ("e.py",)),
        ("l?b/[!b-c]*/", ("e.py",)),
        ("lib//c.py", ()),
        ("[]a].py", ("a.py",)),
    ],
)
def test_patterns(tree: Path, patterns: str, left_out: tuple[str, ...]) -> None:
    (tree / ".gitignore").write_text(patterns)
    assert _names(tree) == [name for name in ALL if name not in left_out]


def test_an_inner_file_overrules_an_outer_one(tree: Path) -> None:
    (tree / ".gitignore").write_text("c.py\ne.py")
    (tree / "lib" / ".gitignore").write_text("!c.py\n/deep/")
    assert _names(tree) == ["a.py", "b.gen.py", "d.py", "c.py", "note.ipynb"]


def test_the_rules_of_the_repository_hold_in_a_part_of_it(tree: Path) -> None:
    (tree / ".gitignore").write_text("lib/deep/")
    assert _names(tree, "lib") == ["d.py", "c.py"]


def test_what_was_skipped_is_told(tree: Path) -> None:
    (tree / ".gitignore").write_text("lib/")
    (tree / "loop.py").symlink_to("loop.py")
    passed = Passed()
    list(find_files((".",), passed))
    assert passed.skipped == ["lib", "loop.py"]


# In each, every wildcard can stand for many parts of the name or of the path, and none fits.
@pytest.mark.parametrize(
    "line",
    ["*a" * 40 + "b", "**/a/" * 40 + "b", "*/" * 40 + "b", "[a-z]*" * 40 + "!", "*" * 5000 + "b"],
)
def test_many_wildcards_take_no_longer(tree: Path, line: str) -> None:
    (tree / ".gitignore").write_text(f"{line}\na.py\n")
    name = "a" * 200 + ".py"
    deep = tree.joinpath(*"a" * 100)
    deep.mkdir(parents=True)
    (deep / name).touch()
    assert name in _names(tree)
    assert "a.py" not in _names(tree)
