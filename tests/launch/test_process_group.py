"""Signals reach what a process has started, and nobody else."""

import os
import signal
import sys

import pytest

from shardlift.launch.process_group import signal_group
from tests import children
from tests.processes.harness import assert_gone

LEAVES_A_CHILD = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
"""


def test_what_a_process_has_left_behind_is_ended():
    with children.Child([sys.executable, "-c", LEAVES_A_CHILD]) as leader:
        leader.finish(check=True)
        os.killpg(leader.pid, 0)  # a member is left
        signal_group(leader, signal.SIGKILL)
        assert_gone([leader.pid])


def test_another_process_with_the_same_id_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    sent: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda pid, number: sent.append(pid))
    with children.Child([sys.executable, "-c", "pass"]) as ended:
        ended.finish(check=True)
        signal_group(ended, signal.SIGTERM)
        assert sent == [ended.pid]
        monkeypatch.setattr(ended, "pid", os.getpid())  # as if it had been given away
        signal_group(ended, signal.SIGTERM)
        assert len(sent) == 1
        monkeypatch.undo()
