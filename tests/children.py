"""The programs that tests start: each ends in time, and nothing of it is left behind.

    done = children.run([sys.executable, "train.py"])
    with children.Child(command, stdout=children.PIPE) as child: ...

One that is late fails the test with the Python stacks of all processes it started: they run with
``PYTHONFAULTHANDLER``, and so write the stacks of all their threads to stderr when SIGABRT ends
them, also when they are stuck in C++. Output goes to files: a pipe that a grandchild holds open
would be read from for ever.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.shared import compilation_cache

PIPE, STDOUT, DEVNULL = subprocess.PIPE, subprocess.STDOUT, subprocess.DEVNULL
Done = subprocess.CompletedProcess[str]
TIMEOUT = 240.0  # seconds; less than a test has, see `timeout` in pyproject.toml


# Set by `conftest.py`: XLA optimises less, and so compiles faster.
QUICK = "JAX_DISABLE_MOST_OPTIMIZATIONS"


def plain_environment(**more: str) -> dict[str, str]:
    """What a program of today has: none of this suite's settings of JAX, but to compile faster."""
    ours = ("JAX_", "PYTEST_")
    kept = {k: v for k, v in os.environ.items() if k == QUICK or not k.startswith(ours)}
    return kept | compilation_cache() | more


class LateError(AssertionError):
    """A program did not end in time."""


class Child(subprocess.Popen[str]):
    """A program in a session of its own; at the end of `with` its whole family is killed."""

    running: set[Child] = set()  # noqa: RUF012  # of this test, for the failure of one that hangs

    def __init__(
        self,
        command: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        text: str | None = None,
        **options: Any,
    ) -> None:
        """What `Popen` takes; ``text`` is what it reads from stdin."""
        self._files = [tempfile.TemporaryFile("w+") for _ in range(3)]  # noqa: SIM115
        given, out, err = self._files
        given.write(text or "")
        given.seek(0)
        options = {"stdin": given, "stdout": out, "stderr": err, **options}
        given_env = os.environ if env is None else env
        # A pytest that a test starts is no worker of this one.
        env = {k: v for k, v in given_env.items() if not k.startswith("PYTEST_XDIST_")}
        env["PYTHONFAULTHANDLER"] = "1"
        super().__init__(list(command), env=env, text=True, start_new_session=True, **options)
        self.running.add(self)

    def __exit__(self, *error: object) -> None:
        self.running.discard(self)
        if self.returncode is None:
            kill(generations([self.pid]))
        # The number of a process that was waited for may be another's by now. It is not while
        # its group has members.
        if self.returncode is None or self.pid not in parents():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self.wait(10)
        for file in (*self._files, self.stdin, self.stdout, self.stderr):
            if file:
                file.close()

    @property
    def stdout_text(self) -> str:
        """What it wrote to stdout so far, unless that was given."""
        return self._read(1)

    @property
    def stderr_text(self) -> str:
        """What it wrote to stderr so far, unless that was given."""
        return self._read(2)

    def _read(self, which: int) -> str:
        file = self._files[which].fileno()
        content = os.pread(file, os.fstat(file).st_size, 0)  # its writing goes on at the end
        return content.decode(errors="replace").replace("\r\n", "\n")

    def finish(self, timeout: float = TIMEOUT, check: bool = False) -> Done:
        """Wait for its end: a failure with the stacks of its family where that does not come."""
        try:
            done = self._end(timeout)
        except subprocess.TimeoutExpired:
            ask_for_stacks([self.pid])
            raise LateError(_told(self._end(10), f"not done in {timeout} s")) from None
        if check and done.returncode:
            raise AssertionError(_told(done, f"exit status {done.returncode}"))
        return done

    def _end(self, timeout: float) -> Done:
        out, err = self.communicate(timeout=timeout)  # of pipes, where it was given these
        return Done(self.args, self.returncode, out or self.stdout_text, err or self.stderr_text)


def _told(done: Done, how: str) -> str:
    return f"{done.args}: {how}\n== stdout\n{done.stdout}\n== stderr\n{done.stderr}"


def run(
    command: Sequence[str | os.PathLike[str]],
    *,
    timeout: float = TIMEOUT,
    check: bool = False,
    **options: Any,
) -> Done:
    """Run a program to its end, as `subprocess.run` does with ``capture_output`` and ``text``."""
    with Child(command, **options) as child:
        return child.finish(timeout, check)


def ask_for_stacks(roots: Iterable[int], patience: float = 5.0) -> None:
    """End these processes, and all that they started, each with its stacks on its stderr.

    The youngest first: what they write may pass through those that started them.
    """
    for generation in reversed(generations(roots)):
        for pid in generation:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGABRT)
        deadline = time.monotonic() + patience
        while parents().keys() & generation and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.2)  # to pass it on


def kill(families: Iterable[Iterable[int]]) -> None:
    """All of them, at once."""
    for pid in itertools.chain.from_iterable(families):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def generations(roots: Iterable[int]) -> list[set[int]]:
    """These processes, those that they started, those that these started."""
    table = parents()
    found = [set(roots) & table.keys()]
    while children := {pid for pid, parent in table.items() if parent in found[-1]}:
        found.append(children)
    return found


def parents() -> dict[int, int]:
    """The parent of each process that has not ended."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent, *_ = path.read_text(errors="replace").rpartition(")")[2].split()
            if state not in "ZX":
                found[int(path.parent.name)] = int(parent)
    return found or _parents_by_ps()


def _parents_by_ps() -> dict[int, int]:
    """Where there is no /proc."""
    command = ["ps", "-A", "-o", "pid=,ppid=,stat="]
    table = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout
    rows = [line.split() for line in table.splitlines()]
    return {int(pid): int(parent) for pid, parent, state in rows if not state.startswith("Z")}
