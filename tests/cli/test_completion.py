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
    assert "SL402" in completed("rule", begun="sl4")


@pytest.mark.parametrize("command", ["check", "migrate", "report", "run", "verify"])
def test_files_are_completed_where_files_are_meant(command):
    assert kinds(command) == {"file"}


def test_every_command_has_help_with_an_example():
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        result = CliRunner().invoke(main, [name, "--help"])
        assert result.exit_code == 0
        assert command.epilog.startswith(f"Example: shardlift {name}"), name


def test_options_show_their_defaults():
    for name, shown in {
        "run": ("[default: 1; x>=1]", "[default: 60; x>=0]"),
        "verify": ("[default: ulps=0]", "[default: (64 MiB); x>=0]"),
    }.items():
        help_text = " ".join(CliRunner().invoke(main, [name, "--help"]).output.split())
        assert all(default in help_text for default in shown), help_text


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_does_it(tmp_path):
    (tmp_path / "shardlift").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m shardlift "$@"\n')
    (tmp_path / "shardlift").chmod(0o755)
    script = (
        'eval "$(_SHARDLIFT_COMPLETE=bash_source shardlift)"; '
        "COMP_WORDS=(shardlift ver); COMP_CWORD=1; "
        "_shardlift_completion shardlift; echo ${COMPREPLY[@]}"
    )
    env = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = children.run(["bash", "-c", script], env=env)
    assert done.stdout == "verify\n", done.stderr
