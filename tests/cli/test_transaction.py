"""Files replaced together, and put back after an interruption; links, and what a kill leaves."""

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from shardlift.cli import transaction
from shardlift.cli.files import OLD_TEXTS
from shardlift.cli.transaction import Replacement, WriteError
from tests import children
from tests.cli.commands import fix, migrate
from tests.cli.interrupting import NEW, OLD, fresh, replacements, tree, write

# Migrates, and is killed in front of the third rename; the files are renamed in turn.
KILLED = """
import os, signal, sys
from shardlift.cli import main
real, turns = os.replace, iter(range(99))
def replace(*args):
    if next(turns) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    real(*args)
os.replace = replace
sys.argv = ["shardlift", "migrate", "--write", "--allow-dirty", "."]
main()
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return fresh(tmp_path)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / "pkg").mkdir(parents=True)
    (folder / "pkg/__init__.py").write_text("")
    for name in ("pkg/one.py", "pkg/two.py"):
        (folder / name).write_text("import jax\n\nf = jax.pmap(g)\n")
    (folder / "pyproject.toml").write_text("")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.slow
def test_ends_at_every_step() -> None:
    command = [sys.executable, "-m", "tests.cli.interrupting"]
    done = children.run(command, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    steps = [int(number) for number in re.findall(r"\d+", done.stdout)]
    assert len(steps) == 2
    assert min(steps) > 15


@pytest.mark.slow
def test_what_was_killed_is_put_back_by_the_command_of_the_message(project: Path) -> None:
    before = tree(project)
    killed = children.run([sys.executable, "-c", KILLED], cwd=project)
    assert killed.returncode == -signal.SIGKILL
    mixed = tree(project)
    dry = migrate("pkg/one.py")
    assert "another migrate is at work, or was killed" in dry.stderr
    assert f"{OLD_TEXTS}/pkg/two.py" not in dry.stdout
    done = fix("--write", "--allow-dirty", "pkg/one.py")
    assert done.exit_code == 2
    assert tree(project) == mixed
    (command,) = re.findall(r"(cp -af .*) puts them back", done.stderr)
    children.run(["sh", "-c", f"{command} && rm -r {OLD_TEXTS}"], check=True)
    assert {name: tree(project)[name] for name in before} == before


def test_a_folder_that_cannot_be_written(root: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root writes everywhere")
    (root / "sub").chmod(0o555)
    with pytest.raises(WriteError, match="could not be written: .*Permission denied"):
        write(root)
    (root / "sub").chmod(0o755)
    assert tree(root) == OLD


def test_a_folder_that_is_not_there(root: Path) -> None:
    changes = [*replacements(root)[:1], Replacement(str(root / "no/b"), None, b"")]
    with pytest.raises(WriteError, match="could not be written"):
        transaction.replace_all(changes, str(root))
    assert tree(root) == OLD


@pytest.mark.parametrize("name", ["sub/b.py", "sub/helper.py"])
def test_a_file_that_changed_since_it_was_read(root: Path, name: str) -> None:
    (root / name).unlink(missing_ok=True)
    (root / name).write_bytes(b"mine\n")
    with pytest.raises(WriteError, match=f"{name} has changed since it was read"):
        write(root)
    assert tree(root) == {**OLD, name: b"mine\n"}


def test_a_trial_is_put_back_with_its_times(root: Path) -> None:
    before = (root / "a.py").stat()
    with transaction.replaced(replacements(root), str(root)):
        seen = tree(root)
    assert {name: text for name, text in seen.items() if OLD_TEXTS not in name} == NEW
    assert tree(root) == OLD
    assert (root / "a.py").stat().st_mtime_ns == before.st_mtime_ns


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_a_trial(root: Path, end: signal.Signals) -> None:
    def trial() -> None:
        with transaction.replaced(replacements(root), str(root)):
            assert (root / "a.py").read_bytes() == NEW["a.py"]
            os.kill(os.getpid(), end)

    with pytest.raises((KeyboardInterrupt, SystemExit)):
        trial()
    assert tree(root) == OLD


@pytest.mark.parametrize("name", NEW)
def test_an_edit_during_a_trial_is_not_lost(root: Path, name: str) -> None:
    def trial() -> None:
        with transaction.replaced(replacements(root), str(root)):
            (root / name).chmod(0o644)
            (root / name).write_bytes(b"mine\n")

    with pytest.raises(WriteError, match=rf"the old text is in \.orig\):\n.*{name}$"):
        trial()
    kept = {f"{name}.orig": OLD[name]} if name in OLD else {}
    assert tree(root) == {**OLD, name: b"mine\n", **kept}


# ---- links


def test_links_stay_and_their_targets_change(root: Path) -> None:
    (root / "link.py").symlink_to("sub/b.py")
    paths = (root / "link.py", root / "sub/b.py")  # both of the one file: it has its own change
    changes = [Replacement(str(path), OLD["sub/b.py"], path.name.encode()) for path in paths]
    transaction.replace_all(changes, str(root))
    assert (root / "link.py").is_symlink()
    assert (root / "sub/b.py").read_bytes() == b"b.py"
    assert not (root / "sub/b.py").is_symlink()


@pytest.mark.parametrize("name", ["pkg/linked.py", "pkg/_spmd.py"])
def test_a_link_out_of_the_project_is_refused(project: Path, name: str) -> None:
    victim = project.parent / "victim.py"
    if name == "pkg/linked.py":
        victim.write_text("import jax\n\nf = jax.pmap(g)\n")
    (project / name).symlink_to(victim)
    before = tree(project.parent)
    done = migrate("--write", "--allow-dirty")
    assert done.exit_code == 2
    assert re.search(rf"{name} is .*outside of the project", " ".join(done.stderr.split()))
    assert tree(project.parent) == before


@pytest.mark.parametrize("content", ["folder", "link", "file"])
def test_what_looks_interrupted_is_refused(project: Path, content: str) -> None:
    """Whoever made it: nothing is read from it."""
    if content == "link":
        (project / OLD_TEXTS).symlink_to(project.parent)
    elif content == "file":
        (project / OLD_TEXTS).write_text("")
    else:
        (project / OLD_TEXTS / "pkg").mkdir(parents=True)
        (project / OLD_TEXTS / "pkg/one.py").write_text("other")
    before = tree(project)
    done = migrate("--write", "--allow-dirty", "pkg")
    assert (done.exit_code, "is there: another migrate" in done.stderr) == (2, True)
    change = Replacement(str(project / "pkg/__init__.py"), b"", b"new")
    with pytest.raises(WriteError, match="is there: another migrate"):
        transaction.replace_all([change], str(project))
    assert tree(project) == before


def test_where_the_old_texts_are(tmp_path: Path) -> None:
    (tmp_path / "p/src/a").mkdir(parents=True)
    (tmp_path / "p/src/a/x.py").write_text("")
    paths = [str(tmp_path / "p/src"), str(tmp_path / "p/src/a/x.py")]
    assert transaction.root_of(paths) == str(tmp_path / "p/src")
    (tmp_path / "p/pyproject.toml").write_text("")
    assert transaction.root_of(paths) == str(tmp_path / "p")
    assert transaction.killed_before(paths) is None
    (tmp_path / "p" / OLD_TEXTS).mkdir()
    assert str(tmp_path / "p" / OLD_TEXTS) in (transaction.killed_before(paths) or "")
