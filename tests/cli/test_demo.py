"""The demo: the commands that it prints and runs."""

import itertools
import os
import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from shardlift.cli.demo import BEFORE, STEPS, bundled, demo
from tests import children, shared
from tests.children import QUICK
from tests.cli.terminal import SPINNER, lines_left, on_a_terminal

# The same, with programs that compile as the tests do.
COMPILING = f"""
import os
from shardlift.cli import demo, main
plain = demo.plain_environment
names = {[QUICK, *shared.compilation_cache()]}
compiling = {{name: os.environ[name] for name in names if name in os.environ}}
demo.plain_environment = lambda devices: plain(devices) | compiling
"""
WRITING = """
demo.STEPS = [step for step in demo.STEPS if "--write" in step[1] or "verify" in step[1]]
"""
PLAY = 'main(["demo"])'


@pytest.mark.slow
def test_what_writes_and_verifies_on_a_terminal(tmp_path: Path) -> None:
    command = [sys.executable, "-c", COMPILING + WRITING + PLAY]
    status, printed = on_a_terminal(command, tmp_path)
    assert status == 0, printed
    assert set(SPINNER) & set(printed)  # of `verify`
    lines = lines_left(printed)
    assert not [line for line, following in itertools.pairwise(lines) if line == following]
    assert not [line for line in lines if set(SPINNER) & set(line)]
    assert "$ shardlift migrate after/train.py --write --allow-dirty" in lines
    assert any(line.startswith("2 sites: 2 identical") for line in lines)
    assert "With your own code:" in lines


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_whole_demo_in_a_pipe(tmp_path: Path) -> None:
    # A user's own settings of JAX must not matter, nor the files around the folder.
    (tmp_path / "pyproject.toml").write_text('[tool.shardlift]\nignore = ["SL"]\n')
    env = {**os.environ, "JAX_ENABLE_X64": "1", "FORCE_COLOR": "1"}
    done = children.run([sys.executable, "-c", COMPILING + PLAY], cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not set(SPINNER) & set(done.stderr)
    printed = re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr)  # Python 3.13 colours, too
    assert "ModuleNotFoundError: No module named 'jax.config'" in printed
    assert [f"$ {command}" in done.stdout for _, command, _ in STEPS] == [True] * len(STEPS)
    assert "280 outputs of 20 calls" in done.stdout
    assert "2 sites: 2 identical" in printed
    folder = tmp_path / "shardlift-demo"
    assert (folder / BEFORE).read_bytes() == bundled()[BEFORE]
    after = (folder / "after/train.py").read_text()
    assert "jax.shard_map" in after
    assert "shardlift" not in after


def test_ctrl_c(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("shardlift.cli.demo.subprocess.run", interrupted)
    result = CliRunner().invoke(demo, ["--into", str(tmp_path / "here")])
    assert result.exit_code == 130
    assert f"interrupted; the files so far are in {tmp_path / 'here'}" in result.output
    assert (tmp_path / "here/before/train.py").exists()


def test_a_command_that_goes_wrong_ends_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    steps = [("it fails", "python nowhere.py", 0), ("never reached", "python", 0)]
    monkeypatch.setattr("shardlift.cli.demo.STEPS", steps)
    result = CliRunner().invoke(demo, ["--into", str(tmp_path / "demo")])
    assert result.exit_code == 1
    assert "exit status 2 instead of 0" in result.output
    assert "never reached" not in result.output


def test_no_file_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    result = CliRunner().invoke(demo, ["--into", str(tmp_path)])
    assert result.exit_code == 2
    assert "has files already: remove it, or choose another folder with --into" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    result = CliRunner().invoke(demo, ["--into", str(tmp_path / "thesis.tex")])
    assert result.exit_code == 2
    assert "cannot be used" in result.output
