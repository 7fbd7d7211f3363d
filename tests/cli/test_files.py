"""Finding files, and what .gitignore leaves out."""

from pathlib import Path

import pytest

from shardlift.cli import git
from shardlift.cli.files import Excluded, Passed, find_files
from tests import children


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    children.run(["git", "init", "-q"], check=True)
    for name in ("a.py", "b.gen.py", "lib/c.py", "lib/build/d.py", "lib/deep/e.py", "note.ipynb"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def _names(tree: Path, path: str = ".") -> list[str]:
    return [Path(name).name for name in find_files((path,))]


ALL = ["a.py", "b.gen.py", "d.py", "c.py", "e.py", "note.ipynb"]


@pytest.mark.parametrize(
    ("patterns", "inner", "left_out"),
    [
        ("", "", ()),
        ("*.gen.py\n!b.gen.py\nbuild/", "", ("d.py",)),
        ("lib\n!lib/c.py", "", ("d.py", "c.py", "e.py")),  # git does not look into such a folder
        ("*\n!*/\n!a.py", "", ("b.gen.py", "d.py", "c.py", "e.py", "note.ipynb")),
        ("c.py\ne.py", "!c.py\n/deep/", ("e.py",)),  # the inner file overrules the outer one
    ],
)
def test_patterns_of_git(tree: Path, patterns: str, inner: str, left_out: tuple[str, ...]) -> None:
    (tree / ".gitignore").write_text(patterns)
    (tree / "lib" / ".gitignore").write_text(inner)
    assert _names(tree) == [name for name in ALL if name not in left_out]
    if patterns.startswith("c.py"):  # the rules of the repository hold in a part of it
        assert _names(tree, "lib") == ["d.py", "c.py"]


def test_a_repository_inside_of_another_one(tree: Path) -> None:
    children.run(["git", "init", "-q", "lib"], check=True)
    (tree / "lib" / ".gitignore").write_text("build/")
    assert _names(tree) == [name for name in ALL if name != "d.py"]


@pytest.mark.parametrize(
    ("pattern", "left_out"),
    [
        ("build", ("d.py",)),
        ("/build/", ()),
        ("lib/build/", ("d.py",)),
        ("/a.py", ("a.py",)),
        ("*.gen.*", ("b.gen.py",)),
        ("lib/*.py", ("d.py", "c.py", "e.py")),
        ("/", ()),
        ("[a", ()),
        ("A.py", ()),
        ("*a" * 40 + "b", ()),  # every wildcard could stand for many parts of a name
    ],
)
def test_excluded(tree: Path, pattern: str, left_out: tuple[str, ...]) -> None:
    (tree / ("a" * 200 + ".py")).touch()
    found = find_files((".",), excluded=[Excluded(tree, ["#", pattern])])
    names = [Path(name).name for name in found]
    assert [n for n in names if len(n) < 200] == [n for n in ALL if n not in left_out]


def test_what_was_skipped_is_told(tree: Path) -> None:
    (tree / ".gitignore").write_text("lib/")
    (tree / "loop.py").symlink_to("loop.py")
    passed = Passed()
    list(find_files((".",), passed))
    assert passed.skipped == ["lib", "loop.py"]


def test_many_wildcards_are_given_up(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git, "TIMEOUT", 0.5)
    (tree / ".gitignore").write_text("*a" * 40 + "b\na.py\n")
    (tree / ("a" * 200 + ".py")).touch()
    assert "a.py" in _names(tree)
