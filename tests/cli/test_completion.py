"""What a shell completes."""

from __future__ import annotations

import os
import shutil
import sys

import click
import pytest
from click.shell_completion import get_completion_class
from click.testing import CliRunner

from shardlift.cli import COMMANDS, main
from tests import children

SHELLS = ["bash", "zsh", "fish"]


def completed(*words: str, begun: str = "") -> list[str]:
    made = get_completion_class("bash")(main, {}, "shardlift", "_SHARDLIFT_COMPLETE")
    return [item.value or item.type for item in made.get_completions(list(words), begun)]


def kinds(*words: str) -> set[str]:
    made = get_completion_class("bash")(main, {}, "shardlift", "_SHARDLIFT_COMPLETE")
    return {item.type for item in made.get_completions(list(words), "")}


def test_commands_are_completed():
    assert completed() == list(COMMANDS)
    assert completed(begun="mig") == ["migrate"]


def test_options_and_their_values_are_completed():
    assert "--record" in completed("run", begun="--re")
    assert completed("check", "--format", begun="s") == ["sarif"]
    assert completed("demo", begun="ver") == ["verify"]
    assert "SL402" in completed("rule", begun="sl4")


@pytest.mark.parametrize("command", ["check", "migrate", "report", "run", "verify"])
def test_files_are_completed_where_files_are_meant(command):
    assert kinds(command) == {"file"}


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script(shell):
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert f"_SHARDLIFT_COMPLETE={shell}_complete" in result.output
    assert "shardlift" in CliRunner().invoke(main, ["completion", shell, "--how"]).output


def test_the_shell_is_that_of_the_user(monkeypatch):
    monkeypatch.setenv("SHELL", "/usr/bin/zsh")
    assert "#compdef shardlift" in CliRunner().invoke(main, ["completion"]).output
    monkeypatch.setenv("SHELL", "/bin/csh")
    result = CliRunner().invoke(main, ["completion"])
    assert result.exit_code == 2
    assert "which shell?" in result.output


def test_every_command_has_help_with_an_example():
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        result = CliRunner().invoke(main, [name, "--help"])
        assert result.exit_code == 0
        assert command.epilog.startswith(f"Example: shardlift {name}"), name


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_does_it(tmp_path):
    (tmp_path / "shardlift").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m shardlift "$@"\n')
    (tmp_path / "shardlift").chmod(0o755)
    script = (
        'eval "$(shardlift completion bash)"; COMP_WORDS=(shardlift ver); COMP_CWORD=1; '
        "_shardlift_completion shardlift; echo ${COMPREPLY[@]}"
    )
    env = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = children.run(["bash", "-c", script], env=env)
    assert done.stdout == "verify\n", done.stderr
