"""Files replaced together, and put back after an interruption; links and journals of others."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from shardlift.cli import main, transaction
from shardlift.cli.transaction import FOLDER, Replacement, WriteError
from tests import children
from tests.cli.interrupting import NEW, OLD, fresh, replacements, tree, write

# Migrates, and gets a signal in front of the given rename; the first is the journal's.
KILLED = """
import os, signal, sys
from shardlift.cli import main
real, turns = os.replace, iter(range(99))
def replace(*args):
    if next(turns) == {at}:
        os.kill(os.getpid(), signal.{signal})
    real(*args)
os.replace = replace
sys.argv = ["shardlift", "migrate", "--write", "--allow-dirty", "."]
main()
"""
# The same with a limit on the size of files: a disk that is full.
FULL = """
import resource, signal, sys
from shardlift.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2500, 2500))
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


def _migrate(*arguments: str, command: str = "migrate") -> Result:
    return CliRunner().invoke(main, [command, *arguments], catch_exceptions=False)


def _program(folder: Path, text: str) -> children.Done:
    return children.run([sys.executable, "-c", text], cwd=folder)


@pytest.mark.slow
def test_ends_at_every_step() -> None:
    command = [sys.executable, "-m", "tests.cli.interrupting"]
    done = children.run(command, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    steps = [int(number) for number in re.findall(r"\d+", done.stdout)]
    assert len(steps) == 2
    assert min(steps) > 15


@pytest.mark.slow
def test_the_next_write_puts_back_what_was_killed(project: Path) -> None:
    before = tree(project)
    killed = _program(project, KILLED.format(at=2, signal="SIGKILL"))
    assert killed.returncode == -signal.SIGKILL
    mixed = tree(project)
    assert "--write" in json.loads(mixed[f"{FOLDER}/journal.json"])["about"]
    dry = _migrate("pkg/one.py")
    assert "the next --write puts it back" in dry.stderr
    assert tree(project) == mixed
    done = _migrate("--write", "--allow-dirty", "pkg/one.py", command="fix")
    assert "an earlier migrate was interrupted: 3 files put back as before" in done.stderr
    assert tree(project) == before


@pytest.mark.slow
def test_an_interruption_in_the_middle_puts_everything_back(project: Path) -> None:
    before = tree(project)
    assert _program(project, KILLED.format(at=2, signal="SIGINT")).returncode != 0
    assert tree(project) == before


@pytest.mark.slow
def test_a_full_disk(project: Path) -> None:
    (project / "pkg/three.py").write_text("import jax\n\nf = jax.pmap(g)\n" + "# text\n" * 400)
    before = tree(project)
    done = _program(project, FULL)
    assert done.returncode == 2, done.stderr
    assert "could not be written: [Errno 27] File too large" in done.stderr
    assert tree(project) == before


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
    seen = transaction.during(replacements(root), str(root), lambda: tree(root))
    assert {name: text for name, text in seen.items() if FOLDER not in name} == NEW
    assert tree(root) == OLD
    assert (root / "a.py").stat().st_mtime_ns == before.st_mtime_ns
    assert (root / "a.py").stat().st_ino == before.st_ino


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_a_trial(root: Path, end: signal.Signals) -> None:
    seen = []

    def run() -> None:
        seen.append((root / "a.py").read_bytes())
        os.kill(os.getpid(), end)

    with pytest.raises((KeyboardInterrupt, SystemExit)):
        transaction.during(replacements(root), str(root), run)
    assert seen == [NEW["a.py"]]
    assert tree(root) == OLD


@pytest.mark.parametrize("name", NEW)
def test_an_edit_during_a_trial_is_not_lost(root: Path, name: str) -> None:
    def edit() -> None:
        (root / name).chmod(0o644)
        (root / name).write_bytes(b"mine\n")

    with pytest.raises(WriteError, match=rf"the old text is in \.orig\):\n.*{name}$"):
        transaction.during(replacements(root), str(root), edit)
    kept = {f"{name}.orig": OLD[name]} if name in OLD else {}
    assert tree(root) == {**OLD, name: b"mine\n", **kept}


ONE_PLACED = """
import os, pathlib, sys
from tests.cli.interrupting import write
real, turns = os.replace, iter(range(9))
os.replace = lambda *args: os._exit(9) if next(turns) == 2 else real(*args)  # 0: the journal
write(pathlib.Path(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", OLD)
def test_an_edit_after_a_kill_is_not_lost(root: Path, name: str) -> None:
    command = [sys.executable, "-c", ONE_PLACED, str(root)]
    assert children.run(command, cwd=Path(__file__).parents[2]).returncode == 9
    (root / name).unlink()
    (root / name).write_bytes(b"mine\n")
    assert name in transaction.recover(str(root / FOLDER))
    assert tree(root) == {**OLD, name: b"mine\n", f"{name}.orig": OLD[name]}


# ---- links


def test_links_stay_and_their_targets_change(root: Path) -> None:
    (root / "link.py").symlink_to("sub/b.py")
    paths = (root / "link.py", root / "sub/b.py")  # both of the one file: it has its own change
    changes = [Replacement(str(path), OLD["sub/b.py"], path.name.encode()) for path in paths]
    transaction.replace_all(changes, str(root))
    assert (root / "link.py").is_symlink()
    assert (root / "sub/b.py").read_bytes() == b"b.py"
    assert not (root / "sub/b.py").is_symlink()


def test_links_where_the_new_texts_are_laid_are_not_followed(project: Path) -> None:
    victim = project.parent / "victim"
    victim.mkdir()
    (victim / "keys").write_text("mine")
    (project / FOLDER).mkdir()
    for name in ("0.new", "0.old", "journal.json.new"):
        (project / FOLDER / name).symlink_to(victim / "keys")
    assert _migrate("--write", "--allow-dirty").exit_code == 0
    assert not (project / "pkg/one.py").is_symlink()
    assert {path.name: path.read_text() for path in victim.iterdir()} == {"keys": "mine"}


@pytest.mark.parametrize("name", ["pkg/linked.py", "pkg/_spmd.py", FOLDER])
def test_a_link_out_of_the_project_is_refused(project: Path, name: str) -> None:
    victim = project.parent / "victim.py"
    if name == "pkg/linked.py":
        victim.write_text("import jax\n\nf = jax.pmap(g)\n")
    (project / name).symlink_to(victim)
    before = tree(project.parent)
    done = _migrate("--write", "--allow-dirty")
    assert done.exit_code == 2
    assert re.search(rf"{name} is .*(outside of the project|not a folder)", (
        " ".join(done.stderr.split())
    )), done.stderr  # fmt: skip
    assert tree(project.parent) == before


# ---- journals


def _journal(root: Path, document: object) -> None:
    (root / FOLDER).mkdir(exist_ok=True)
    text = document if isinstance(document, str) else json.dumps(document)
    (root / FOLDER / "journal.json").write_text(text)


def _deleting(path: str) -> dict[str, object]:
    """A journal that has an empty file deleted."""
    entry = {"path": path, "created": True, "new": hashlib.sha256(b"").hexdigest()}
    return {"process": 99_999_999, "files": [entry]}


@pytest.mark.parametrize(
    "path", ["../victim/empty.txt", "{victim}/empty.txt", "out/empty.txt", "pkg/link.txt", "."]
)
def test_a_journal_touches_nothing_outside_of_its_project(project: Path, path: str) -> None:
    victim = project.parent / "victim"
    victim.mkdir()
    (victim / "empty.txt").write_text("")
    (project / "out").symlink_to(victim)
    (project / "pkg/link.txt").symlink_to(victim / "empty.txt")
    _journal(project, _deleting(path.format(victim=victim)))
    before = tree(project.parent)
    done = _migrate("--write", "--allow-dirty")
    assert (done.exit_code, "names files outside of the project" in done.stderr) == (2, True)
    assert tree(project.parent) == before


def test_a_journal_that_git_tracks_is_not_believed(project: Path) -> None:
    (project / "empty.txt").write_text("")
    _journal(project, _deleting("empty.txt"))
    children.run(["git", "init", "-q"], check=True)
    children.run(["git", "add", "-A", "-f"], check=True)
    before = tree(project)
    done = _migrate("--write", "--allow-dirty")
    assert (done.exit_code, "git tracks it" in done.stderr) == (2, True)
    assert tree(project) == before
    children.run(["git", "rm", "-rq", "--cached", FOLDER], check=True)
    assert "1 file put back" in _migrate("--write", "--allow-dirty").stderr
    assert not (project / "empty.txt").exists()


def test_a_dry_run_changes_nothing(project: Path) -> None:
    (project / "empty.txt").write_text("")
    _journal(project, _deleting("empty.txt"))
    before = tree(project)
    assert _migrate().exit_code == 1
    assert tree(project) == before


@pytest.mark.parametrize(
    "document",
    [
        "",
        "{",
        "[]",
        "null",
        "5",
        '{"process": 1e400, "files": []}',
        '{"process": 1%s, "files": []}' % ("0" * 5000),
        {"process": -1, "files": []},
        {"process": 2**40, "files": []},
        {"process": True, "files": []},
        {"process": 1},
        {"process": 1, "files": 5},
        {"process": 1, "files": [5]},
        {"process": 1, "files": ["path"]},
        {"process": 1, "files": [{"path": 5, "created": True, "new": "0" * 64}]},
        {"process": 1, "files": [{"path": "a\0", "created": True, "new": "0" * 64}]},
        {"process": 1, "files": [{"path": "\ud800", "created": True, "new": "0" * 64}]},
        {"process": 1, "files": [{"path": "a", "created": None, "new": "0" * 64}]},
        {"process": 1, "files": [{"path": "a", "created": True, "new": 5}]},
        '{"process": ' + "[" * 100_000,
    ],
)
def test_a_damaged_journal(project: Path, document: object) -> None:
    _journal(project, document)
    before = tree(project)
    done = _migrate("--write", "--allow-dirty")
    assert (done.exit_code, done.stdout) == (2, "")
    assert " is damaged" in done.stderr
    assert tree(project) == before


def test_a_migration_that_is_still_at_work(root: Path) -> None:
    with children.Child([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        _journal(root, {"process": child.pid, "files": []})
        with pytest.raises(WriteError, match=f"at work here, process {child.pid}"):
            transaction.recover(str(root / FOLDER))
        done = _migrate("--write", str(root))
        assert done.exit_code == 2
        assert "the old files are in that folder" in done.stderr
        with pytest.raises(WriteError, match="has just begun here"):
            write(root)
    assert "put back" in transaction.recover(str(root / FOLDER))
    assert tree(root) == OLD


def test_where_the_journal_lies(tmp_path: Path) -> None:
    (tmp_path / "p/src/a").mkdir(parents=True)
    (tmp_path / "p/src/a/x.py").write_text("")
    paths = [str(tmp_path / "p/src"), str(tmp_path / "p/src/a/x.py")]
    assert transaction.root_of(paths) == str(tmp_path / "p/src")
    (tmp_path / "p/pyproject.toml").write_text("")
    assert transaction.root_of(paths) == str(tmp_path / "p")
    (tmp_path / "p" / FOLDER).mkdir()
    assert transaction.interrupted(paths) == [str(tmp_path / "p" / FOLDER)]
