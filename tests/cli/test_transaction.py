"""Files replaced together: by one transaction, and by what puts right an interrupted one."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from shardlift.cli import main, transaction
from shardlift.cli.transaction import JOURNAL, Change, Transaction, WriteError
from tests import children
from tests.cli.interrupting import NEW, OLD, fresh, tree, write

# Migrates, and is killed in front of the given rename.
KILLED = """
import os, signal, sys
from shardlift.cli import main
real, turns = os.replace, iter(range(99))
def replace(*args):
    if next(turns) == {at}:
        os.kill(os.getpid(), signal.{signal})
    real(*args)
os.replace = replace
sys.argv = ["shardlift", "migrate", "--write", "."]
main()
"""
# The same with a limit on the size of files: a disk that is full.
FULL = """
import resource, signal, sys
from shardlift.cli import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2500, 2500))
sys.argv = ["shardlift", "migrate", "--write", "."]
main()
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return fresh(tmp_path)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").write_text("")
    for name in ("pkg/one.py", "pkg/two.py"):
        (tmp_path / name).write_text("import jax\n\nf = jax.pmap(g)\n")
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


def _program(folder: Path, text: str) -> children.Done:
    command = [sys.executable, "-c", text]
    return children.run(command, cwd=folder)


@pytest.mark.slow
def test_ends_at_every_step() -> None:
    command = [sys.executable, "-m", "tests.cli.interrupting"]
    done = children.run(command, cwd=Path(__file__).parents[2])
    assert done.returncode == 0, done.stderr
    steps = [int(number) for number in re.findall(r"\d+", done.stdout)]
    assert len(steps) == 2
    assert min(steps) > 20


@pytest.mark.slow
def test_a_killed_command_is_completed_by_the_next(project: Path) -> None:
    before = tree(project)
    killed = _program(project, KILLED.format(at=2, signal="SIGKILL"))
    assert killed.returncode == -signal.SIGKILL
    mixed = tree(project)
    assert JOURNAL in mixed
    assert "--recover" in json.loads(mixed[JOURNAL])["about"]
    done = CliRunner().invoke(main, ["migrate", str(project / "pkg/one.py")])
    assert "an earlier migrate was interrupted: its change of 3 files is completed" in done.stderr
    after = tree(project)
    assert after.keys() == before.keys() | {"pkg/_spmd.py"}
    assert not any(b"jax.pmap(g)" in text for text in after.values())
    done = CliRunner().invoke(main, ["migrate", "--recover", str(project)])
    assert (done.exit_code, done.output) == (0, "Nothing was interrupted here.\n")


@pytest.mark.slow
def test_a_signal_in_the_middle_waits_until_all_is_written(project: Path) -> None:
    done = _program(project, KILLED.format(at=2, signal="SIGINT"))
    assert done.returncode != 0
    assert JOURNAL not in tree(project)
    assert not any(b"jax.pmap(g)" in text for text in tree(project).values())


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
    changes = [Change(str(root / "a.py"), OLD["a.py"], b"x"), Change(str(root / "no/b"), None, b"")]
    with pytest.raises(WriteError, match="could not be written"), Transaction(changes, str(root)):
        pass
    assert tree(root) == OLD


def test_a_file_that_changed_since_it_was_read(root: Path) -> None:
    (root / "sub/b.py").chmod(0o644)
    (root / "sub/b.py").write_bytes(b"mine\n")
    with pytest.raises(WriteError, match="sub/b.py has changed since it was read"):
        write(root)
    assert tree(root) == {**OLD, "sub/b.py": b"mine\n"}


def test_a_file_that_appeared_where_a_new_one_goes(root: Path) -> None:
    (root / "sub/helper.py").write_bytes(b"mine\n")
    with pytest.raises(WriteError, match="helper.py has changed"):
        write(root)
    assert tree(root) == {**OLD, "sub/helper.py": b"mine\n"}


def test_links_stay_and_their_targets_change(root: Path) -> None:
    (root / "link.py").symlink_to("sub/b.py")
    paths = (root / "link.py", root / "sub/b.py")  # both of the one file: it has its own change
    changes = [Change(str(path), OLD["sub/b.py"], path.name.encode()) for path in paths]
    with Transaction(changes, str(root)) as written:
        written.keep()
    assert (root / "link.py").is_symlink()
    assert (root / "sub/b.py").read_bytes() == b"b.py"
    assert not (root / "sub/b.py").is_symlink()


def test_a_trial_is_put_back_with_its_times(root: Path) -> None:
    before = (root / "a.py").stat()
    changes = [Change(str(root / name), OLD.get(name), text) for name, text in NEW.items()]
    with Transaction(changes, str(root), trial=True):
        names = {name for name in tree(root) if "shardlift" not in name}
        assert names == set(NEW)
        assert (root / "a.py").read_bytes() == NEW["a.py"]
    assert tree(root) == OLD
    assert (root / "a.py").stat().st_mtime_ns == before.st_mtime_ns
    assert (root / "a.py").stat().st_ino == before.st_ino


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_during_a_trial(root: Path, end: signal.Signals) -> None:
    changes = [Change(str(root / name), OLD.get(name), text) for name, text in NEW.items()]
    seen = []

    def run() -> None:
        seen.append((root / "a.py").read_bytes())
        os.kill(os.getpid(), end)

    with pytest.raises((KeyboardInterrupt, SystemExit)):
        transaction.during(changes, str(root), run)
    assert seen == [NEW["a.py"]]
    assert tree(root) == OLD


def test_an_edit_during_a_trial_is_not_lost(root: Path) -> None:
    changes = [Change(str(root / name), OLD.get(name), text) for name, text in NEW.items()]
    with pytest.raises(WriteError, match="left alone:\n.*a.py .before: .*a.py.shardlift-old"):
        with Transaction(changes, str(root), trial=True):
            (root / "a.py").write_bytes(b"mine\n")
    assert tree(root) == {**OLD, "a.py": b"mine\n", ".a.py.shardlift-old": OLD["a.py"]}


ONE_PLACED = """
import os, pathlib, sys
from tests.cli.interrupting import write
real, turns = os.replace, iter(range(9))
os.replace = lambda *args: os._exit(9) if next(turns) == 2 else real(*args)  # 0: the journal
write(pathlib.Path(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("placed", "expected"), [("a.py", NEW), ("sub/b.py", OLD)])
def test_an_edit_after_a_kill_is_not_lost(root: Path, placed: str, expected: dict) -> None:
    """Who changes a file that was replaced already has seen the new text, else the old one."""
    command = [sys.executable, "-c", ONE_PLACED, str(root)]
    assert children.run(command, cwd=Path(__file__).parents[2]).returncode == 9
    (root / placed).chmod(0o644)
    (root / placed).write_bytes(b"mine\n")
    said = transaction.recover(str(root / JOURNAL))
    found = {name: text for name, text in tree(root).items() if "shardlift" not in name}
    assert found == {**expected, placed: b"mine\n"}
    assert ("completed" in said) is (expected is NEW)


def test_a_migration_that_is_still_at_work(root: Path) -> None:
    with children.Child([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        document = {"state": "trying", "process": child.pid, "files": []}
        (root / JOURNAL).write_text(json.dumps(document))
        with pytest.raises(WriteError, match=f"at work here, process {child.pid}"):
            transaction.recover(str(root / JOURNAL))
        done = CliRunner().invoke(main, ["migrate", str(root)])
        assert done.exit_code == 2
        assert "--recover" in done.stderr
        with pytest.raises(WriteError, match="has just begun here"):
            write(root)
        assert "put back" in transaction.recover(str(root / JOURNAL), force=True)
    assert tree(root) == OLD


def test_a_journal_that_was_cut_short(root: Path) -> None:
    (root / JOURNAL).write_text('{"state": "stag')
    assert "before it wrote anything" in transaction.recover(str(root / JOURNAL))
    assert tree(root) == OLD


def test_where_the_journal_lies(tmp_path: Path) -> None:
    (tmp_path / "p/src/a").mkdir(parents=True)
    (tmp_path / "p/src/a/x.py").write_text("")
    paths = [str(tmp_path / "p/src"), str(tmp_path / "p/src/a/x.py")]
    assert transaction.root_of(paths) == str(tmp_path / "p/src")
    (tmp_path / "p/pyproject.toml").write_text("")
    assert transaction.root_of(paths) == str(tmp_path / "p")
    (tmp_path / "p" / JOURNAL).write_text("")
    assert transaction.journals(paths) == [str(tmp_path / "p" / JOURNAL)]
