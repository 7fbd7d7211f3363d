"""CPU time of sessions, by /proc and by ps."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from shardlift.launch import cpu

BURN = "import time\nwhile time.process_time() < 1.5: pass\nprint('done', flush=True)\ninput()"
# The work is done by a child of the process, which ends before it is looked at.
BURN_BELOW = (
    f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN[:-8]!r}])\ninput()"
)


@pytest.fixture(params=[BURN, BURN_BELOW], ids=["itself", "a child"])
def busy(request):
    command = [sys.executable, "-c", request.param]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "done\n"
            time.sleep(0.5)  # so that a child has been waited for
            yield process.pid
        finally:
            process.kill()


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="no /proc")
def test_proc(busy: int):
    assert cpu.by_session()[busy] >= 1.4
    used = cpu.cpu_seconds([busy, 2**30])
    assert used is not None
    assert used[0] >= 1.4
    assert used[1] == 0  # nobody


def test_ps():
    command = [sys.executable, "-c", BURN]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, start_new_session=True, **pipes) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "done\n"
            assert cpu.by_group()[process.pid] >= 1
        finally:
            process.kill()


def test_where_there_is_neither(monkeypatch):
    monkeypatch.setattr(cpu, "_PROC", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    assert cpu.cpu_seconds([1]) is None
