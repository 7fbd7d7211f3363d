"""The harness itself: what it promises to the tests that stand on it."""

from __future__ import annotations

import pytest

from .harness import assert_gone, run_processes

pytestmark = pytest.mark.slow


def one_raises():
    import jax

    print("this is process", jax.process_index())
    if jax.process_index() == 1:
        raise ValueError("not today")


def test_a_failure_shows_every_log():
    with pytest.raises(AssertionError) as failed:
        run_processes(one_raises, devices=1, initialize={"shutdown_timeout_seconds": 2})
    text = str(failed.value)
    assert "this is process 0" in text
    assert "== process 1: status 1" in text
    assert "ValueError: not today" in text


SLEEPS_WITH_A_CHILD = """
import os, subprocess, sys, time

def main():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print("pid", os.getpid(), child.pid)
    wait_for_ever()

def wait_for_ever():
    time.sleep(600)
"""


@pytest.mark.exhaustive
def test_the_time_is_bounded_and_nothing_is_left():
    results = run_processes(SLEEPS_WITH_A_CHILD, devices=1, timeout=15, check=False)
    for r in results:
        assert r.status is None
        assert "in wait_for_ever" in r.output  # the stacks of both, as both were late
    assert_gone([int(r.output.split("pid")[1].split()[0]) for r in results])
