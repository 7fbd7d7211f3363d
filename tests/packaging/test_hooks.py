"""What other repositories call: the pre-commit hook and the GitHub action, as they are declared."""

import os
import re
import shlex
import sys
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from shardlift.cli import main
from tests import children
from tests.packaging.building import ROOT

HOOK = (ROOT / ".pre-commit-hooks.yaml").read_text()
ACTION = (ROOT / "action.yml").read_text()
OLD = "import jax\n\nstep = jax.tree_map(lambda x: x, {})\n"


def declared(name: str) -> str:
    """A value of the hook, which has one line for each."""
    found = re.search(rf"^(?:- |  ){name}: (.+)$", HOOK, re.MULTILINE)
    assert found is not None, name
    return found[1]


def test_the_hook_finds_what_it_is_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("old.py").write_text(OLD)
    Path("new.py").write_text("import jax\n")
    program, *options = shlex.split(declared("entry"))
    assert program == "shardlift"
    result = CliRunner().invoke(main, [*options, "old.py", "new.py"])
    assert result.exit_code == 1
    assert result.output.startswith("old.py:3:8: SL105 ")
    assert CliRunner().invoke(main, [*options, "new.py"]).exit_code == 0
    assert declared("id") == "shardlift-check"
    assert declared("language") == "python"  # pre-commit installs the package, without extras
    assert declared("types_or") == "[python, jupyter]"
    assert declared("require_serial") == "true"


def steps() -> list[str]:
    """The scripts of the action."""
    blocks = re.findall(r"^      run: (\|\n(?:        .*\n)+|.+\n)", ACTION, re.MULTILINE)
    return [textwrap.dedent(block.removeprefix("|\n")) for block in blocks]


def test_the_action_is_composite_and_takes_inputs_as_data():
    assert "using: composite" in ACTION
    assert len(steps()) == 2
    assert steps()[0].strip().endswith('pip install --quiet "$GITHUB_ACTION_PATH"')
    assert not any("${{" in script for script in steps())
    used = set(re.findall(r"\$\{\{ inputs\.(\w+) \}\}", ACTION))
    inputs = ACTION.partition("inputs:")[2].partition("runs:")[0]
    assert used == set(re.findall(r"^  (\w+):$", inputs, re.MULTILINE))


def test_the_action_and_the_hook_import_nothing_of_the_pull_request():
    """By the installed command, or with -I: Python then does not look into the current folder."""
    for script in steps():
        assert re.findall(r"python3 -m|PYTHONPATH|pip install(?! --quiet)", script) == []
        assert len(re.findall(r"python3 -I -m", script)) == 1
    assert "python" not in declared("entry")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("paths", "fail", "status"),
    [(". ", "true", 1), (".", "false", 0), ("new.py $(touch trace)", "true", 2)],
)
def test_the_action_annotates(tmp_path, paths, fail, status):
    (tmp_path / "old.py").write_text(OLD)
    (tmp_path / "new.py").write_text("import jax\n")
    for name in ("pip", "shardlift", "runpy", "json", "click", "sitecustomize"):
        (tmp_path / name).mkdir()
        for file in ("__init__.py", "__main__.py"):
            (tmp_path / name / file).write_text(f"open({str(tmp_path / 'trace')!r}, 'w')")
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "RUNNER_TEMP": "/",
        "GITHUB_ACTION_PATH": "/nowhere",
        "PATHS": paths,
        "ARGS": "--select SL1",
        "FAIL": fail,
    }
    installed = children.run(["bash", "-e", "-c", steps()[0]], cwd=tmp_path, env=env)
    assert "/nowhere" in installed.stderr  # by the real pip, which has no such folder
    done = children.run(["bash", "-e", "-c", steps()[1]], cwd=tmp_path, env=env)
    assert done.returncode == status, done.stderr
    assert ("::error file=old.py,line=3" in done.stdout) == (status < 2), done.stdout
    assert not (tmp_path / "trace").exists()
