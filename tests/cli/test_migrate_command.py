"""`shardlift migrate` as a person runs it."""

import json
import stat
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from shardlift.cli.formats.migration import find_leftovers
from shardlift.cli.migrate import migrate_command
from shardlift.rewrite.changes import Change, ChangeId
from shardlift.rewrite.results import FileResult, Migration
from shardlift.source.model import Kind, Span
from tests.cli.commands import migrate, run_git

pytestmark = pytest.mark.usefixtures("many_sites")

PMAP = "import jax\n\nstep = jax.pmap(train, axis_name='i')\n"
DONE = "step = spmd_map(train, axis_name='i')\n"
FILES = {"pkg/__init__.py": "", "pkg/train.py": PMAP, "other.py": "x = 1\n"}


def test_comments_and_strings_that_still_speak_of_pmap_are_listed(project: Path) -> None:
    train = project / "pkg/train.py"
    train.write_text(
        f'{train.read_text()}# The PMAP rows are PMAPPED.\nname = "jax.pmap"\npmap = 1\n'
    )
    lines = train.read_text().split("\n")
    told = json.loads(migrate("--format", "json").stdout)["left"]
    stale = [one["message"] for one in told if one["code"] == "stale-text"]
    assert stale == [lines[-4], lines[-3]]
    said = "Comments or strings still speak of pmap in"
    assert f"{said} 2 lines: pkg/train.py:" in migrate().stderr
    for number in range(2):
        (project / f"pkg/old{number}.py").write_text(f"{PMAP}# pmap\n# pmap\n")
    lines = [f"pkg/{name}.py:{line}" for name in ("old0", "old1", "train") for line in (4, 5)]
    assert f"{said} 6 lines: {', '.join(lines[:5])}, ...\n" in migrate().stderr
    assert f"{said} 6 lines: {', '.join(lines)}\n" in migrate("--verbose").stderr
    for number in range(2):
        (project / f"pkg/old{number}.py").unlink()
    train.write_text("x = 1  # pmap\n")
    assert "speak of pmap" not in migrate().stderr  # nothing was rewritten
    text = "x = 1  # (n_devices, batch)\ny = '(n_devices, batch)'\n"
    change = Change(
        ChangeId("a.py", 1, 0, Kind.DEVICE_AXIS), Kind.DEVICE_AXIS, Span(1, 0, 1, 5), "x"
    )
    file = FileResult("a.py", text, text, (change,))
    assert [stale.line for stale in find_leftovers(Migration((file,)))] == [1]


def test_a_diff_is_shown_and_nothing_written(project: Path) -> None:
    (project / "pkg/eval.py").write_text(PMAP)
    result = migrate()
    assert result.exit_code == 1
    assert "--- a/pkg/train.py\n+++ b/pkg/train.py\n" in result.stdout
    assert f"+{DONE}" in result.stdout
    assert "--- /dev/null\n+++ b/pkg/_spmd.py\n" in result.stdout
    assert "2 places (mapped) would be rewritten in 2 files." in result.stderr
    assert "--write" in result.stderr
    assert (project / "pkg/train.py").read_text() == PMAP
    assert not (project / "pkg/_spmd.py").exists()
    (project / "change.diff").write_bytes(result.stdout_bytes)
    run_git("init", "-q")
    run_git("apply", "change.diff")
    assert (project / "pkg/train.py").read_text().endswith(DONE)
    assert "def spmd_map(" in (project / "pkg/_spmd.py").read_text()


def test_writing_and_running_again(project: Path) -> None:
    result = migrate("--write")
    assert result.exit_code == 0
    assert "1 place (mapped) was rewritten in 1 file." in result.stdout
    text = (project / "pkg/train.py").read_text()
    assert text.endswith(f"    return jax.jit(mapped)\n\n\n{DONE}")
    again = migrate("--write")
    assert again.exit_code == 0
    assert "nothing to rewrite" in again.stdout.lower()
    assert (project / "pkg/train.py").read_text() == text


def test_what_is_left_is_listed_and_is_the_exit_status(project: Path) -> None:
    (project / "other.py").write_text("import equinox as eqx\n\nf = eqx.filter_pmap(g)\n")
    result = migrate("other.py", "--write")
    assert result.exit_code == 1
    assert "other.py:3:5: left as it is: equinox.filter_pmap" in result.stdout
    assert "1 left as it is" in result.stdout
    (project / "pkg/broken.py").write_text("import jax\njax.pmap(\n")
    (left,) = json.loads(migrate("pkg", "--format", "json").stdout)["left"]
    assert (left["code"], left["path"]) == ("unreadable", "pkg/broken.py")
    result = migrate("pkg", "--write")
    assert "pkg/broken.py: not looked at: line 2" in result.stdout
    assert result.exit_code == 2
    assert (project / "pkg/train.py").read_text().endswith(DONE)


def test_what_the_program_guards_itself_is_skipped(project: Path) -> None:
    text = "import jax\nif hasattr(jax, 'tree_map'):\n    y = jax.tree_map(f, x)\n"
    (project / "other.py").write_text(text)
    (left,) = json.loads(migrate("other.py", "--format", "json").stdout)["left"]
    assert (left["code"], left["line"]) == ("guarded", 3)
    said = migrate("other.py", "--verbose").stderr
    assert "1 skipped, guarded by the program itself." in said
    assert "other.py:3:9: skipped: " in said


def test_a_dirty_tree_is_refused(project: Path) -> None:
    run_git("init", "-q")
    run_git("add", "-A")
    run_git("commit", "-qm", "one")
    with (project / "pkg/train.py").open("a") as stream:
        stream.write("# mine\n")
    result = migrate("--write")
    assert result.exit_code == 2
    assert "pkg/train.py" in result.stderr
    assert "--allow-dirty" in result.stderr
    assert "jax.pmap" in (project / "pkg/train.py").read_text()
    assert not (project / "pkg/_spmd.py").exists()
    assert migrate("--write", "--allow-dirty").exit_code == 0
    assert (project / "pkg/train.py").read_text().endswith(f"{DONE}# mine\n")


def test_mode_line_ends_and_encoding_stay(project: Path) -> None:
    path = project / "pkg/train.py"
    path.write_bytes(b"\xef\xbb\xbf" + PMAP.encode())
    migrate("--write")
    assert path.read_bytes().startswith(b"\xef\xbb\xbfimport functools\n")
    text = "# -*- coding: latin-1 -*-\r\nimport jax\r\n\r\n# d\xe9j\xe0\r\nstep = jax.pmap(f)\r\n"
    path.write_bytes(text.encode("latin-1"))
    path.chmod(0o755)
    migrate("--write")
    content = path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o755
    assert "# d\xe9j\xe0\r\n".encode("latin-1") in content
    assert content.count(b"\n") == content.count(b"\r\n")
    assert content.endswith(b"step = spmd_map(f)\r\n")


def _notebook(path: Path, *sources: str) -> None:
    cells = [{"source": source, "cell_type": "code"} for source in sources]
    document = {"cells": cells, "nbformat": 4}
    path.write_text(json.dumps(document, indent=3, ensure_ascii=False), encoding="utf-8")


def test_a_notebook_is_shown_by_cell_and_keeps_its_layout(project: Path) -> None:
    path = project / "n.ipynb"
    imports = "import functools, jax, jax.numpy as jnp"
    _notebook(path, imports, "y = jax.tree_map(f, x)", "# \u00e9", "f = jax.pmap(g)\nz = 2")
    diff = migrate("n.ipynb").stdout.splitlines()
    assert [line for line in diff if line.startswith(("---", "+++"))] == [
        "--- n.ipynb: cell 2",
        "+++ n.ipynb: cell 2",
        "--- /dev/null",
        "+++ n.ipynb: cell 4",
        "--- n.ipynb: cell 4",
        "+++ n.ipynb: cell 5",
    ]
    assert diff[-4:] == ["@@ -1,2 +1,2 @@", "-f = jax.pmap(g)", "+f = spmd_map(g)", " z = 2"]
    kept = [line for line in path.read_text("utf-8").splitlines() if "(" not in line]
    assert migrate("n.ipynb", "--write").exit_code == 0
    after = path.read_text("utf-8")
    assert [line for line in kept if line not in after.splitlines()] == []
    assert migrate("n.ipynb", "--write").exit_code == 0
    assert path.read_text("utf-8") == after
    _notebook(path, "import jax", *["f = jax.pmap(g, devices=some)"] * 2)
    said = migrate("n.ipynb").stderr
    assert "n.ipynb:cell 2:1:5: left as it is: " in said
    assert "(and 1 other place: n.ipynb:cell 3:1:5)" in said


NOTHING_RECORDED = '{"schema": "shardlift.capture", "version": 1}'


def test_global_says_what_keeps_its_axis_and_asks_for_facts(project: Path) -> None:
    text = (
        "import jax\nfrom flax import jax_utils\n\nstep = jax.pmap(train, axis_name='i')\n\n\n"
        "def run(state):\n    state = jax_utils.replicate(state)\n"
        "    state = step(state)\n    return jax_utils.unreplicate(state)\n"
    )
    (project / "pkg/train.py").write_text(text)
    Path("run.json").write_text(NOTHING_RECORDED)
    result = migrate("--to", "global", "pkg", "--facts", "run.json")
    assert result.exit_code == 1
    assert "keeps its device axis" in result.stderr
    assert "--facts FILE" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--target-jax", "new"], "'new' is not a version such as 0.10.2"),
        (["--facts", "run.json"], "--facts is for --to global and --to jit"),
        (["--to", "global", "--facts", "missing.json"], "missing.json"),
        (["--to", "global", "--facts", "other.py"], "is damaged, or is not a capture"),
        (["--to", "global"], "`shardlift run --record run.json PROGRAM` and add --facts run.json"),
        (["--to", "jit"], "`shardlift run --record run.json PROGRAM` and add --facts run.json"),
        (["--to", "jit", "--write", "--facts", "run.json"], "equal to rounding: add --verify"),
        (["--verify", "train.py"], "add --write"),
        (["--write", "--tolerance", "ulps=2"], '--tolerance needs --verify "COMMAND"'),
        (["--write", "--devices", "2"], '--devices needs --verify "COMMAND"'),
        (["--write", "--verify", "no_such.py"], "no such file: no_such.py Nothing was written."),
    ],
)
@pytest.mark.usefixtures("project")
def test_options_that_do_not_go_together(arguments: list[str], said: str) -> None:
    Path("run.json").write_text(NOTHING_RECORDED)
    result = migrate(*arguments)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())


OLD_NAMES = "import jax\n\nx = jax.tree_map(f, tree)\n"
SITE = "step = jax.pmap(g)\n"


def test_names_are_rewritten_for_the_newest_jax_or_that_of_the_settings(project: Path) -> None:
    (project / "pyproject.toml").write_text(
        '[project]\nname = "p"\ndependencies = ["jax>=0.4.1"]\n'
    )
    (project / "other.py").write_text(OLD_NAMES + SITE)
    assert "+x = jax.tree.map(f, tree)" in migrate("other.py").stdout
    (project / "other.py").write_text(OLD_NAMES)
    (project / "examples").mkdir()
    (project / "examples" / "train.py").write_text(OLD_NAMES + SITE)
    result = migrate("other.py", "examples")  # the library runs with an older JAX than its examples
    assert result.stdout.count("+x = jax.tree_util.tree_map(f, tree)") == 2
    assert "needs JAX 0.7" in result.stderr
    result = migrate("other.py")  # nothing leaves pmap: as `fix`
    assert "+x = jax.tree_util.tree_map(f, tree)" in result.stdout
    assert "needs JAX" not in result.stderr
    (project / "pyproject.toml").write_text('[tool.shardlift]\ntarget-jax = "0.5"\n')
    result = migrate("other.py")
    assert (result.exit_code, result.stdout) == (0, "")  # as `check`, which reports nothing


def test_an_old_jax_is_told_what_the_new_text_needs(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.shardlift]\ntarget-jax = "0.5"\n')
    (project / "other.py").write_text(OLD_NAMES + SITE)
    result = migrate("other.py")
    assert "+step = spmd_map(g)" in result.stdout
    assert "-x = jax.tree_map" not in result.stdout
    assert "The new text needs JAX 0.7 or newer." in result.stderr
    (project / "requirements.txt").write_text("jax>=0.8\n")
    assert "needs JAX" not in migrate("other.py", "--target-jax", "0.10").stderr
    told = json.loads(migrate("other.py", "--format", "json").stdout)
    assert told["target_jax"] == "0.5"


def test_for_how_many_processes_it_was_written_is_said(project: Path) -> None:
    assert "Written for one process: no line joins a job" in migrate().stderr
    (project / "pkg/train.py").write_text(f"{PMAP}assert jax.process_count() == 1\n")
    said = " ".join(migrate().stderr.split())
    assert "for one process, because of pkg/train.py:4: jax.process_count()" in said
    assert "Written for one process, as --processes says" in migrate("--processes", "1").stderr
    (project / "pkg/train.py").write_text("import jax\nprint(jax.tree_map(abs, 1))\n")
    assert "Written for" not in migrate().stderr  # nothing is mapped


def test_the_line_that_decides_for_many_processes_is_named(project: Path) -> None:
    (project / "pkg/train.py").write_text(f"{PMAP}jax.distributed.initialize()\n")
    result = migrate()
    assert "because of pkg/train.py:4: jax.distributed.initialize()" in " ".join(
        result.stderr.split()
    )
    assert "spmd_map" not in result.stdout
    assert "pkg/train.py:3:8: left as it is: it keeps jax.pmap" in result.stderr
    assert "which --to shim writes" in " ".join(result.stderr.split())
    for word, is_many in (("1", False), ("2", True)):
        result = migrate("--processes", word)
        assert ("spmd_map" in result.stdout) is not is_many
        assert ("--to shim" in result.stderr) is is_many
        assert "because of" not in result.stderr


def test_places_of_one_reason_are_one_line(project: Path) -> None:
    text = "import jax\njax.distributed.initialize()\n" + "jax.pmap(f)(x)\n" * 12
    (project / "other.py").write_text(text)
    (line,) = (one for one in migrate("other.py").stderr.splitlines() if "left as it is: " in one)
    assert line.startswith("other.py:3:1: left as it is: it keeps jax.pmap")
    others = [f"other.py:{number}:1" for number in range(4, 15)]
    assert line.endswith(f"(and 11 other places: {', '.join(others[:5])}, ...)")
    assert f"(and 11 other places: {', '.join(others)})" in migrate("other.py", "--verbose").stderr


def test_a_diff_in_a_pipe_has_no_colours(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is for `git apply`, also where a job asks for colours."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "+++ b/" in migrate().stdout
    assert "\x1b" not in migrate().stdout


def test_the_options_are_few_and_in_groups() -> None:
    result = CliRunner().invoke(migrate_command, ["--help"])
    for title in ("Rewrite:", "Verify:", "Output:"):
        assert f"\n{title}\n" in result.stdout
    options = [one for one in migrate_command.params if isinstance(one, click.Option)]
    assert len(options) <= 15
