"""When a job counts as stuck, and what is said of it."""

import faulthandler
import re
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from shardlift.cli.stuck import explain_stuck
from shardlift.launch.stuck import (
    Activity,
    StackFrame,
    StuckClock,
    StuckJob,
    StuckProcess,
    cpu_seconds,
    parse_dump,
)
from tests import children

LIMIT = 60.0
STEP = StuckClock(LIMIT).interval


def quiet(count: int, start: float = 0.0, cpu: float = 1.0, printed: int = 5) -> list[Activity]:
    return [Activity(start + STEP * k, (cpu, cpu), printed) for k in range(count)]


def looks(cpu: Callable[[int], tuple[float, ...]], printed: int = 200) -> list[Activity]:
    """A hundred looks at a job that prints once in so many of them."""
    return [Activity(STEP * k, cpu(k), k // printed) for k in range(100)]


IDLE = 0.0034 * STEP  # the most CPU time that was measured of a deadlocked process


@pytest.mark.parametrize(
    ("samples", "at"),
    [
        (quiet(500), [LIMIT]),
        (looks(lambda k: (IDLE * k, IDLE * k)), [LIMIT]),
        (looks(lambda k: (STEP * k, 1.0)), []),
        (looks(lambda k: (1.0, STEP * k)), []),
        (looks(lambda _: (1.0,), printed=20), []),
        # A process has ended, with what it had used.
        (quiet(20, cpu=3.0) + quiet(40, start=20 * STEP, cpu=2.0), [20 * STEP + LIMIT]),
        # It moves, and stops again.
        (quiet(40) + quiet(2000, 1000.0, printed=6), [LIMIT, 1000.0 + LIMIT]),
        # The launcher itself was stopped in between.
        (quiet(3) + quiet(5, start=10_000.0), []),
        # Writing the stacks, after the report, is no move.
        (quiet(31) + quiet(5000, start=62.0, cpu=1.3, printed=9), [LIMIT]),
    ],
)
def test_when_a_job_is_reported(samples: list[Activity], at: list[float]):
    clock = StuckClock(LIMIT)
    assert [sample.at for sample in samples if clock.add(sample)] == at


BURN = """
import subprocess, sys, time
code = "import time; end = time.process_time() + 0.3\\nwhile time.process_time() < end: pass"
child = subprocess.Popen([sys.executable, "-c", code + "\\nprint(flush=True); time.sleep(300)"])
child.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="CPU time is read from /proc")
def test_cpu_seconds_are_those_of_a_process_and_all_that_it_started():
    with children.Child([sys.executable, "-c", BURN], stdout=children.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        used = cpu_seconds([child.pid, 2**30])
    assert used is not None
    assert used[0] >= 0.25
    assert used[1] == 0  # it has ended


def test_the_stack_of_the_main_thread_without_libraries():
    waiting, done = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (waiting.set(), done.wait()))
    thread.start()
    waiting.wait()
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        stack = parse_dump(file.read().splitlines())
    done.set()
    thread.join()
    assert stack is not None
    assert stack[0][::2] == (__file__, "test_the_stack_of_the_main_thread_without_libraries")
    assert not [frame for frame in stack if "/_pytest/" in frame.file]
    assert (
        parse_dump(["Thread 0x7f (most recent call first):", '  File "<frozen x>", line 1 in f'])
        == ()
    )
    assert parse_dump([]) is None


LINE = Path(__file__).read_text().splitlines().index('BURN = """') + 1
STEP_FRAME = StackFrame(__file__, LINE, "step")
OUTER = StackFrame("/home/me/train.py", 9, "<module>")


def explain(*stacks: tuple[StackFrame, ...] | None, ended: bool = True) -> list[str]:
    states = [StuckProcess(k, 100 + k, stack) for k, stack in enumerate(stacks)]
    states[-1] = states[-1]._replace(ended=ended)
    lines = explain_stuck(StuckJob(60, len(states), tuple(states)), ended=ended).splitlines()
    return [re.sub(r"\S+/(?=\w+\.py)", "", line) for line in lines]


def test_processes_are_grouped_by_the_line_in_which_they_wait():
    said = explain((STEP_FRAME, OUTER), (OUTER,), (), (STEP_FRAME, OUTER), None, None)
    assert said == [
        "shardlift: for 60 s none of the 6 processes has used the CPU or printed anything",
        f"  process 0 (pid 100), process 3 (pid 103): waits at test_stuck.py:{LINE} in step: "
        'BURN = """',
        "      called at train.py:9 in <module>",
        "  process 1 (pid 101): waits at train.py:9 in <module>",
        "  process 2 (pid 102): at the end of the program",
        "  process 4 (pid 104): does not answer. Stopped by a debugger or SIGSTOP?",
        "  process 5 (pid 105): ended",
        "shardlift: every process must make the same calls in the same order; print and save "
        "under `if jax.process_index() == 0:`, but compute outside of it",
        "shardlift: the job was ended, because of --end-when-stuck",
    ]


def test_all_wait_in_one_line():
    _, where, called, last = explain((OUTER, OUTER), (OUTER, OUTER), ended=False)
    assert where == "  process 0 (pid 100), process 1 (pid 101): waits at train.py:9 in <module>"
    assert called == "      called at train.py:9 in <module>"
    assert "the job is left as it is" in last
