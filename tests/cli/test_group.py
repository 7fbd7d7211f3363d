"""The command line as a whole: its help, its version and words that are no command."""

from __future__ import annotations

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


def test_the_version_has_a_short_option():
    assert CliRunner().invoke(main, ["-V"]).output.startswith("shardlift, version")
