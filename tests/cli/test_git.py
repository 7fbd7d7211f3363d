"""What git has of files: asked without running anything that the repository names."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from shardlift.cli import git
from tests import children
from tests.cli.commands import migrate, run_git

PMAP = "import jax\n\nstep = jax.pmap(train)\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PMAP)
    return tmp_path


@pytest.fixture
def repository(folder: Path) -> Path:
    run_git("init", "-q")
    run_git("add", "-A")
    return folder


def test_a_file_that_is_as_git_has_it(repository: Path) -> None:
    assert git.dirty_files(["train.py"]) == []
    run_git("commit", "-qm", "one")
    os.utime("train.py")
    assert git.dirty_files(["train.py"]) == []
    Path("train.py").write_bytes(PMAP.replace("\n", "\r\n").encode())  # of another system
    assert git.dirty_files(["train.py"]) == []
    shutil.rmtree(".git")
    (repository / ".git").mkdir()  # one that git does not read
    assert git.dirty_files(["train.py"]) == ["train.py"]


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_files_that_git_does_not_have(folder: Path, object_format: str) -> None:
    names = ["[ab].py", "a.py", "later.py", "é\udcff.py", "intended.py", "sub/b.py", ":x.py"]
    for name in names:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(name.encode("ascii", "replace").decode())
    run_git("init", "-q", f"--object-format={object_format}")
    run_git("add", "train.py", "a.py", "sub/b.py", "é\udcff.py", "./:x.py")
    run_git("add", "-N", "intended.py")
    os.symlink("later.py", "link.py")
    run_git("add", "link.py")
    Path("sub/b.py").write_text("changed")
    dirty = git.dirty_files([*names, "link.py", "train.py", "nowhere.py"])
    assert sorted(dirty) == ["[ab].py", "intended.py", "link.py", "sub/b.py"]


PROGRAM = """#!{python}
import pathlib, sys
pathlib.Path({trace!r}).write_text(sys.argv[0])
sys.stdout.write(sys.stdin.read())
"""
# Every setting that names a program for reading an index or a working tree, or for fetching.
SETTINGS = {
    "core": ["fsmonitor", "pager", "sshCommand", "gitProxy", "askPass", "editor"],
    'filter "x"': ["clean", "smudge", "process"],
    "diff": ["external"],
    'diff "x"': ["textconv", "command"],
    "pager": ["ls-files", "status"],
    'remote "origin"': ["uploadpack"],
}
MORE = """
[core]
    hooksPath = {hooks}
[filter "x"]
    required = true
[alias]
    ls-files = !{program}
    status = !{program}
[extensions]
    partialClone = origin
[remote "origin"]
    url = ext::{program}
    promisor = true
[protocol]
    allow = always
"""


@pytest.mark.slow
def test_no_program_that_the_repository_names_is_run(repository: Path, tmp_path: Path) -> None:
    trace, program, hooks = (repository / name for name in ("trace", "program", "hooks"))
    hooks.mkdir()
    program.write_text(PROGRAM.format(python=sys.executable, trace=str(trace)))
    program.chmod(0o755)
    for name in ("post-index-change", "fsmonitor-watchman", "pre-auto-gc"):
        (hooks / name).symlink_to(program)
    (repository / ".gitattributes").write_text("*.py filter=x diff=x\n")
    with (repository / ".git/config").open("a") as config:
        for section, keys in SETTINGS.items():
            config.write(f"[{section}]\n" + "".join(f"{key} = {program}\n" for key in keys))
        config.write(MORE.format(program=program, hooks=hooks))
    os.utime("train.py", (1, 1))  # to be looked at again
    (repository / "other.py").write_text(PMAP)
    assert git.dirty_files(["train.py", "other.py"]) == ["other.py"]
    assert migrate("train.py", "--write").exit_code == 0
    assert not trace.exists(), trace.read_text()
    children.run(["git", "status"])
    assert trace.exists()  # plain git runs it


# ---- outside of git


def test_outside_of_git_the_old_text_is_kept(folder: Path) -> None:
    done = migrate("--write")
    assert "No git here: the old text is in train.py.orig" in done.stderr
    assert (folder / "train.py.orig").read_text() == PMAP
    assert "pmap(" not in (folder / "train.py").read_text().replace("_map(", "")
    (folder / "train.py").write_text(f"{PMAP}# mine\n")
    assert migrate("--write").exit_code == 0
    assert (folder / "train.py.orig").read_text() == PMAP
    assert (folder / "train.py.orig1").read_text() == f"{PMAP}# mine\n"


def test_no_copy_where_git_has_the_text_or_none_is_wanted(folder: Path) -> None:
    assert migrate("--write", "--allow-dirty").exit_code == 0
    Path("train.py").write_text(PMAP)
    run_git("init", "-q")
    run_git("add", "-A")
    assert migrate("--write").exit_code == 0
    assert not [path for path in folder.iterdir() if ".orig" in path.name]
