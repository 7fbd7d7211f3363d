"""What commands print while they work: animated on a terminal only, elsewhere a line per phase."""

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
@pytest.mark.parametrize("name", ["FORCE_COLOR", "TTY_COMPATIBLE"])
def test_only_a_terminal_shows_a_spinner_that_goes_away(tmp_path: Path, name: str) -> None:
    _, printed = on_a_terminal([sys.executable, "-c", WORK], tmp_path)
    assert set(SPINNER) & set(printed)
    assert lines_left(printed) == ["one is done", "two is done"]
    done = children.run([sys.executable, "-c", WORK], env=os.environ | {name: "1"})
    assert (done.stderr, done.stdout) == ("", "one is done\ntwo is done\n")


PHASES = """\
import click, time
from shardlift.cli.console import phases
@click.command("verify")
@click.option("-q", "quiet", is_flag=True)
def work(quiet):
    with phases(quiet) as tell:
        for phase in ("running before", "comparing"):
            tell(phase)
            time.sleep(0.3)
    print("done")
work()
"""


@pytest.mark.slow
def test_long_work_prints_a_line_per_phase_where_there_is_no_terminal(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PHASES]
    done = children.run(command)
    assert done.stdout == "done\n"
    assert [line.partition(": ")[2] for line in done.stderr.splitlines()] == [
        "running before",
        "comparing",
    ]
    assert children.run([*command, "-q"]).stderr == ""
    _, printed = on_a_terminal(command, tmp_path)
    assert lines_left(printed) == ["done"]
