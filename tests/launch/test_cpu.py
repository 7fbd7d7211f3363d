"""CPU time of sessions, by /proc and by ps."""

from __future__ import annotations

import os
import sys
import time

import pytest

from shardlift.launch import cpu
from tests import children

BURN = "import time\nwhile time.process_time() < 1.5: pass\nprint('done', flush=True)\ninput()"
# The work is done by a child of the process, which ends before it is looked at.
BURN_BELOW = (
    f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN[:-8]!r}])\ninput()"
)


@pytest.fixture(params=[BURN, BURN_BELOW], ids=["itself", "a child"])
def busy(request):
    command = [sys.executable, "-c", request.param]
    with children.Child(command, stdin=children.PIPE, stdout=children.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == "done\n"
        time.sleep(0.5)  # so that a child has been waited for
        yield process.pid


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="no /proc")
def test_proc(busy: int):
    assert cpu.by_session()[busy] >= 1.4
    used = cpu.cpu_seconds([busy, 2**30])
    assert used is not None
    assert used[0] >= 1.4
    assert used[1] == 0  # nobody


def test_ps():
    command = [sys.executable, "-c", BURN]
    with children.Child(command, stdin=children.PIPE, stdout=children.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == "done\n"
        assert cpu.by_group()[process.pid] >= 1


def test_where_there_is_neither(monkeypatch):
    monkeypatch.setattr(cpu, "_PROC", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    assert cpu.cpu_seconds([1]) is None


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="no /proc")
def test_own_time_counts_children_that_run():
    with children.Child([sys.executable, "-c", BURN], stdin=children.PIPE) as child:
        deadline = time.monotonic() + 60
        while cpu.own_cpu_seconds() - time.process_time() < 1:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert child.poll() is None


def test_own_time_without_proc(monkeypatch: pytest.MonkeyPatch):
    def read_stats():
        raise FileNotFoundError("/proc")

    monkeypatch.setattr(cpu, "read_stats", read_stats)
    assert cpu.own_cpu_seconds() > 0
