"""The command line as a whole: its help, its version, completion, words that are no command."""

import sys

import click
import pytest
from click.shell_completion import get_completion_class
from click.testing import CliRunner

from shardlift.cli import COMMANDS, main


def test_the_nearest_command_is_named_for_a_word_that_is_none():
    result = CliRunner().invoke(main, ["chek"])
    assert result.exit_code == 2
    assert "Did you mean 'check'?" in result.output
    assert "Did you mean" not in CliRunner().invoke(main, ["zzz"]).output


def test_help_lists_every_command_under_a_heading_with_its_whole_summary():
    text = CliRunner().invoke(main, ["--help"]).output
    assert "...\n" not in text.partition("Start:")[2]
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert text.index("Start:") < text.index("Use:") < text.index("As a team:")
    assert text.rstrip().endswith("Begin with: shardlift demo, or shardlift run train.py")
    assert CliRunner().invoke(main, ["-V"]).output.startswith("shardlift, version")


@pytest.mark.parametrize(
    ("words", "begun", "expected"),
    [
        ((), "", list(COMMANDS)),
        ((), "mig", ["migrate"]),
        (("run",), "--record-", ["--record-inputs"]),
        (("check", "--format"), "s", ["sarif"]),
        (("rule",), "sl402", ["SL402"]),
    ],
)
def test_what_a_shell_completes(words: tuple[str, ...], begun: str, expected: list[str]):
    made = get_completion_class("bash")(main, {}, "shardlift", "_SHARDLIFT_COMPLETE")
    assert [item.value for item in made.get_completions(list(words), begun)] == expected


DEFAULTS = {
    "run": ("[default: 1; x>=1]", "[default: 60; x>=0]"),
    "verify": ("[default: ulps=0]", "[default: (64 MiB); x>=0]"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example_and_its_defaults(name: str):
    command = main.get_command(click.Context(main), name)
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0
    assert command.epilog.startswith(f"Example: shardlift {name}")
    shown = " ".join(result.output.split())
    assert [one for one in DEFAULTS.get(name, ()) if one not in shown] == []


def test_without_pygls_lsp_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "shardlift.cli.lsp.server", raising=False)
    for name in ("pygls", "lsprotocol"):
        monkeypatch.setitem(sys.modules, name, None)
    result = CliRunner().invoke(main, ["lsp"])
    assert result.exit_code == 2
    assert 'pip install "shardlift[lsp]"' in result.output
