"""What a shell completes."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class
from click.testing import CliRunner

from shardlift.cli import COMMANDS, main


def completed(*words: str, begun: str = "") -> list[str]:
    made = get_completion_class("bash")(main, {}, "shardlift", "_SHARDLIFT_COMPLETE")
    return [item.value or item.type for item in made.get_completions(list(words), begun)]


def test_commands_are_completed():
    assert completed() == list(COMMANDS)
    assert completed(begun="mig") == ["migrate"]


def test_options_and_their_values_are_completed():
    assert "--record" in completed("run", begun="--re")
    assert completed("check", "--format", begun="s") == ["sarif"]
    assert "SL402" in completed("rule", begun="sl4")


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
