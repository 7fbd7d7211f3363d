"""What commands print while they work: animated on a terminal, and nowhere else."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests import children
from tests.cli.terminal import SPINNER, lines_left, on_a_terminal

WORK = """\
import time
from shardlift.cli.console import console, progress_console
for step in ("one", "two"):
    with progress_console().status(step):
        time.sleep(0.3)
    console(80).print(f"{step} is done")
"""


@pytest.mark.slow
def test_a_terminal_shows_a_spinner_that_goes_away(tmp_path: Path) -> None:
    _, printed = on_a_terminal([sys.executable, "-c", WORK], tmp_path)
    assert set(SPINNER) & set(printed)
    assert lines_left(printed) == ["one is done", "two is done"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["FORCE_COLOR", "TTY_COMPATIBLE"])
def test_a_pipe_shows_none_whatever_asks_for_colours(name: str) -> None:
    done = children.run([sys.executable, "-c", WORK], env=os.environ | {name: "1"})
    assert done.stderr == ""
    assert done.stdout == "one is done\ntwo is done\n"
