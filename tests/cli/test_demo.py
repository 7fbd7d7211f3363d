"""The journey: played once, as a user plays it, and looked at from all sides."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from shardlift.cli.children import Done
from shardlift.cli.demo import demo
from shardlift.cli.demo.cost import Cost, cost_of, table
from shardlift.cli.demo.folder import Folder, FolderError
from shardlift.cli.demo.stage import Stage, fold_additions
from shardlift.cli.demo.steps import BEFORE, STEPS, bundled, needed_for
from tests import children, shared
from tests.children import QUICK

COMMAND = [sys.executable, "-m", "shardlift", "demo"]
# The same, with programs that compile as the tests do.
COMPILING = f"""
import os
from shardlift.cli import main
from shardlift.cli.demo import cost, stage, steps
plain = stage.plain_environment
names = {[QUICK, *shared.compilation_cache()]}
compiling = {{name: os.environ[name] for name in names if name in os.environ}}
stage.plain_environment = lambda devices: plain(devices) | compiling
"""
SHORT = "cost.ROUNDS, steps.STEPS_TIMED = 1, 20\n"  # timed once, and for a moment


class Played:
    """A demo that was played."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        # A user's own settings of JAX must not matter, nor what lies around the folder.
        (folder / "pyproject.toml").write_text('[tool.shardlift]\nignore = ["SL"]\n')
        env = {**os.environ, "JAX_ENABLE_X64": "1", "COLUMNS": "80"}
        done = children.run(command, cwd=folder, env=env)
        self.status, self.out, self.errors = done.returncode, done.stdout, done.stderr
        self.files = folder / "shardlift-demo"

    def said(self, step: str) -> str:
        """What was printed for a step."""
        parts = re.split(r"^\d/\d  .*$", self.out, flags=re.MULTILINE)
        return parts[1 + list(STEPS).index(step)]

    def all_went_as_it_should(self):
        assert self.status == 0, self.out + self.errors
        assert re.findall(r"^✓ (\w+): ", self.out, re.MULTILINE) == list(STEPS)

    def it_is_readable_in_80_columns_and_without_colours(self):
        assert "\x1b" not in self.out
        assert [line for line in self.out.splitlines() if len(line) > 80] == []

    def it_fails_on_todays_jax(self):
        assert "$ python before/train.py" in self.said("fail")
        assert "ModuleNotFoundError: No module named 'jax.config'" in self.said("fail")

    def it_runs_unmodified(self):
        assert "$ shardlift run --devices 8 --record run.json before/train.py" in self.said("run")
        assert "on 8 devices" in self.said("run")
        assert "jax.device_put_replicated (1)" in self.said("run")
        assert (self.files / "before/train.py").read_bytes() == bundled()[BEFORE]

    def the_report_is_shown_and_written(self):
        assert "2 pmap sites" in self.said("report")
        assert (self.files / "report.html").read_text().startswith("<!doctype html>")

    def check_finds_what_is_there(self):
        codes = set(re.findall(r" (SL\d+) ", self.said("check")))
        assert {"SL101", "SL105", "SL107", "SL201", "SL402"} <= codes

    def the_diff_is_shown_and_made_in_a_copy(self):
        assert '-p_eval_step = jax.pmap(eval_step, axis_name="batch")' in self.said("migrate")
        after = [path.read_text() for path in (self.files / "after").glob("*.py")]
        assert any("jax.shard_map(" in text for text in after)
        assert not any("shardlift" in text for text in after)

    def every_leaf_is_compared(self):
        assert "280 outputs of 20 calls" in self.said("verify")
        assert "2 sites: 2 identical" in self.said("verify")

    def costs_are_measured(self):
        row = re.search(r"one step +([\d.]+) ms +([\d.]+) ms +([\d.]+)", self.said("cost"))
        before, after, ratio = map(float, row.groups())
        assert before > 0
        assert after > 0
        assert ratio == pytest.approx(after / before, abs=0.02 + 0.01 / before)

    def no_helper_is_needed_on_global_arrays(self):
        assert "+    jax.shard_map," in self.said("global")
        assert "+def " not in self.said("global")
        assert "-def replicate(tree):" in self.said("global")

    def it_ends_with_the_commands_for_ones_own_code(self):
        end = self.out[self.out.index("With your own code") :]
        for command in ("run", "report", "check", "migrate", "verify"):
            assert f"  shardlift {command} " in end

    def a_step_alone_says_so_when_the_program_is_different(self):
        # The user's change is looked at, and not written over.
        after = self.files / "after/train.py"
        text = after.read_text()
        after.write_text(text + "\nbroken = True\n")
        done = children.run([*COMMAND, "migrate"], cwd=self.files.parent)
        assert done.returncode == 2
        assert "was changed since the demo wrote it" in done.stderr
        assert after.read_text().endswith("broken = True\n")
        after.write_text(text)


@pytest.mark.slow
def test_the_whole_journey(tmp_path, request):
    in_full = request.config.getoption("exhaustive")
    code = COMPILING + SHORT * (not in_full) + 'main(["demo"])'
    played = Played(tmp_path, [sys.executable, "-c", code])
    for look in (
        played.all_went_as_it_should,
        played.it_is_readable_in_80_columns_and_without_colours,
        played.it_fails_on_todays_jax,
        played.it_runs_unmodified,
        played.the_report_is_shown_and_written,
        played.check_finds_what_is_there,
        played.the_diff_is_shown_and_made_in_a_copy,
        played.every_leaf_is_compared,
        played.costs_are_measured,
        played.it_ends_with_the_commands_for_ones_own_code,
        played.a_step_alone_says_so_when_the_program_is_different,
    ):
        look()


@pytest.mark.slow
def test_a_step_alone_and_ctrl_c(tmp_path):
    if not Path("/proc/self/stat").exists():
        pytest.skip("needs /proc")
    command = [*COMMAND, "run", "--into", "here"]
    with children.Child(command, cwd=tmp_path, stdout=children.PIPE) as demo:
        while not demo.stdout.readline().startswith("$ shardlift run"):
            assert demo.poll() is None, demo.stderr_text
        deadline = time.monotonic() + 30
        while not (started := children.generations([demo.pid])[1:]) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert started
        demo.send_signal(signal.SIGINT)
        done = demo.finish()
    assert done.returncode == 130
    assert "interrupted; the files so far are in here" in done.stderr
    assert "Traceback" not in done.stderr
    while children.parents().keys() & started[0]:  # killed, and gone before the test's time is up
        time.sleep(0.05)
    assert (tmp_path / "here/before/train.py").exists()


def test_without_jax_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "jax", None)
    result = CliRunner().invoke(demo, ["--into", str(tmp_path / "demo")])
    assert result.exit_code == 2
    assert 'pip install "shardlift[jax]"' in result.output
    assert not (tmp_path / "demo").exists()


class TestFolder:
    def test_one_with_other_things_is_refused(self, tmp_path):
        (tmp_path / "thesis.tex").write_text("mine")
        result = CliRunner().invoke(demo, ["check", "--into", str(tmp_path)])
        assert result.exit_code == 2
        assert "contains other files" in result.output
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]

    def test_what_somebody_changed_is_not_written_over(self, tmp_path):
        Folder(tmp_path / "new").put("a/b.py", b"1")
        again = Folder(tmp_path / "new")
        again.put("a/b.py", b"2")
        (tmp_path / "new/a/b.py").write_bytes(b"mine")
        with pytest.raises(FolderError, match="b.py was changed since the demo wrote it"):
            again.put("a/b.py", b"3")
        assert (tmp_path / "new/a/b.py").read_bytes() == b"mine"

    def test_a_file_of_the_same_name_is_not_written_over(self, tmp_path):
        folder = Folder(tmp_path)
        (tmp_path / "run.json").write_text("mine")
        with pytest.raises(FolderError, match="run.json"):
            folder.check_unchanged("run.json")

    def test_a_damaged_list_makes_nothing_ours(self, tmp_path):
        Folder(tmp_path).put("run.json", b"1")
        (tmp_path / ".shardlift-demo.json").write_text("{")
        with pytest.raises(FolderError):
            Folder(tmp_path).put("run.json", b"2")

    def test_a_file_in_the_way(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(FolderError, match="cannot be used"):
            Folder(tmp_path / "file" / "demo")


class Acted(Stage):
    """A stage whose commands end as a test says."""

    def __init__(self, path: Path, *statuses: int) -> None:
        super().__init__(Folder(path), Console(), quiet=True, verbose=False)
        self.statuses = list(statuses)

    def _run(self, typed: str) -> Done:
        return Done(self.statuses.pop(0), "some output\n", 1.0)


@pytest.mark.parametrize(
    ("step", "statuses"),
    [("fail", [0]), ("run", [1]), ("report", [2]), ("check", [0]), ("migrate", [0]),
     ("migrate", [1, 2]), ("verify", [1]), ("cost", [1]), ("global", [0]), ("global", [1])],
)  # fmt: skip
def test_a_step_that_goes_wrong_says_so(tmp_path, step, statuses):
    assert not STEPS[step].play(Acted(tmp_path, *statuses)).good


def test_a_program_that_fails_otherwise_is_not_what_the_demo_is_about(tmp_path):
    assert not STEPS["fail"].play(Acted(tmp_path, 1)).good


def test_a_step_brings_what_it_needs(tmp_path):
    stage = Acted(tmp_path)
    assert [step.name for step in needed_for(STEPS["verify"], stage)] == ["migrate", "verify"]
    stage.folder.put("after/train.py", b"")
    assert [step.name for step in needed_for(STEPS["verify"], stage)] == ["verify"]


def test_a_program_that_failed_has_no_cost():
    assert cost_of(Done(1, "warm after 1.0 s\n2.0 ms per step", 1.0)) is None
    assert cost_of(Done(0, "nothing", 1.0)) is None


def test_costs_side_by_side():
    console = Console(width=80, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(table(Cost(0.004, 2, 8), Cost(0.003, 1, 4)))
    console.file.close()
    text = console.export_text()
    assert re.search(r"one step +4.00 ms +3.00 ms +0.75", text)
    assert re.search(r"whole program +8.00 s +4.00 s +0.50", text)


def test_short_additions_are_shown():
    diff = "-a\n" + "+b\n" * 10
    assert fold_additions(diff) == diff.rstrip()
