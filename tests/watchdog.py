"""What happens when `pytest-timeout` fires: the test fails with the stacks of all processes.

Its own two ways either never come to an end in C++ (`signal`) or end the worker and leave the
programs that it started (`thread`), and neither knows of them. Here the main thread is
interrupted, asks the programs for their stacks and fails; where it does not come back from C++
in time, another thread does that and ends the worker, which xdist names and replaces.
"""

import faulthandler
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Callable

import pytest

from tests.children import Child, ask_for_stacks, generations

PATIENCE = 20.0  # seconds for the main thread to come back


def watch(name: str, timeout: float) -> Callable[[], None]:
    """Make the test that runs now fail after ``timeout`` seconds; call the result to stop that."""
    failing = threading.Event()
    late = f"{name}: not done in {timeout} s"

    def fail(*_: object) -> None:
        failing.set()  # from here on the test does not go on, whatever ends with its programs
        pytest.fail(f"{late}\n{stacks()}", pytrace=False)

    def expire() -> None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
        if not failing.wait(PATIENCE):
            print(f"{late}\n{stacks()}", file=sys.__stderr__, flush=True)
            os._exit(70)

    signal.signal(signal.SIGALRM, fail)
    timer = threading.Timer(timeout, expire)
    timer.daemon = True
    timer.start()

    def stop() -> None:
        timer.cancel()
        signal.signal(signal.SIGALRM, lambda *_: None)  # one that is on its way ends nobody

    return stop


def stacks() -> str:
    """Of every thread here, and of every program that was started and runs."""
    with tempfile.TemporaryFile("w+") as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        here = file.read()
    running = list(Child.running)
    ask_for_stacks({pid for children in generations([os.getpid()])[1:2] for pid in children})
    theirs = [f"== {child.args}\n{child.stdout_text}\n{child.stderr_text}" for child in running]
    return "\n".join([f"== the test itself, process {os.getpid()}", here, *theirs])
