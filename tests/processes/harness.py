"""Start real processes under one coordinator and run a function in each.

    def body(scale):
        import jax
        return jax.process_index() * scale

    results = run_processes(body, processes=2, devices=4, args=(10,))
    assert [r.value for r in results] == [0, 10]

The body travels as source, so it imports what it needs and closes over nothing; its arguments
and its result travel as JSON. ``jax.distributed`` is initialised before it is called, with gloo
between the processes. Every process is ended before ``run_processes`` returns, and ends itself
when the test runner dies.
"""

from __future__ import annotations

import inspect
import json
import os
import socket
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shardlift.launch.program import virtual_devices
from tests.children import PIPE, STDOUT, Child, ask_for_stacks

CHILD = Path(__file__).with_name("child.py")


@dataclass(frozen=True)
class Result:
    """How one process ended."""

    process: int
    status: int | None  # None: never started, or ended by the harness when the time was up
    value: Any  # what the body returned
    error: str | None  # "ValueError: what it said", when the body raised
    output: str  # stdout and stderr
    seconds: float  # from the start of the job to the end of this process


def run_processes(
    body: Callable[..., Any] | str,
    *,
    processes: int = 2,
    devices: int = 4,
    timeout: float = 200.0,
    args: Sequence[Any] = (),
    check: bool = True,
    initialize: dict[str, Any] | None = None,
    env: dict[str, str] | None = None,
) -> list[Result]:
    """Run ``body(*args)`` in each of ``processes`` processes of ``devices`` devices.

    ``body`` is a function, or source that defines ``main``.
    With ``check`` a process that fails, or is not done in ``timeout`` seconds, fails the test
    with the logs of all; without it the results tell. ``initialize`` are more keywords for
    ``jax.distributed.initialize``.
    """
    with tempfile.TemporaryDirectory() as folder:
        job = _Job(Path(folder), processes, devices, initialize or {}, env or {})
        job.write(body, args)
        try:
            for process in range(processes):
                job.start(process)
            job.wait(timeout)
        finally:
            job.end()
        results = [job.result(process) for process in range(processes)]
    bad = [r for r in results if r.status != 0]
    if check and bad:
        raise AssertionError(_logs(results, timeout))
    return results


class Job(NamedTuple):
    """Bodies that ran in one job, one after the other."""

    processes: int
    devices: int
    results: list[Result]

    def values(self, body: Callable[..., Any]) -> list[Any]:
        """What this body returned in each process; a list for a body with several arguments."""
        return [result.value[body.__name__] for result in self.results]


def job_of(*bodies: Callable[..., Any], **arguments: Sequence[Any]) -> Callable[..., Job]:
    """A fixture: one job for each shape, which runs all bodies in turn; most of it is its start.

    A body that is named in ``arguments`` is called with each of them.
    """
    calls = []
    for body in bodies:
        name, given = body.__name__, arguments.get(body.__name__)
        call = f"{name}()" if given is None else f"[{name}(each) for each in {list(given)!r}]"
        calls.append(f"{name!r}: {call}")
    sources = [textwrap.dedent(inspect.getsource(body)) for body in bodies]
    text = "\n".join([*sources, f"def main():\n    return {{{', '.join(calls)}}}\n"])

    @pytest.fixture(
        scope="module",
        params=[(2, 4), *(pytest.param(p, marks=pytest.mark.exhaustive) for p in [(4, 2), (2, 1)])],
        ids=["2-4", "4-2", "2-1"],
    )
    def job(request: pytest.FixtureRequest) -> Job:
        processes, devices = request.param
        return Job(processes, devices, run_processes(text, processes=processes, devices=devices))

    return job


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def group_is_gone(pid: int) -> bool:
    """Whether no process of the group ``pid`` is left."""
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return True
    return False


def assert_gone(pids: Sequence[int], timeout: float = 10.0) -> None:
    """Fail when a process of these groups is left; what was killed takes a moment to go."""
    deadline = time.monotonic() + timeout
    while not all(map(group_is_gone, pids)):
        assert time.monotonic() < deadline, f"left behind: {pids}"
        time.sleep(0.05)


class _Job:
    def __init__(
        self,
        folder: Path,
        processes: int,
        devices: int,
        initialize: dict[str, Any],
        env: dict[str, str],
    ) -> None:
        self.folder = folder
        self.initialize: dict[str, Any] = {
            "coordinator_address": f"127.0.0.1:{free_port()}",
            "num_processes": processes,
            "cluster_detection_method": "deactivate",
            "initialization_timeout": 30,
            "heartbeat_timeout_seconds": 10,
            "shutdown_timeout_seconds": 10,
            **initialize,
        }
        self.env = {
            **os.environ,
            "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
            "JAX_NUMPY_DTYPE_PROMOTION": "strict",
            "JAX_ENABLE_COMPILATION_CACHE": "0",  # its warnings would be errors
            "PYTHONUNBUFFERED": "1",
            **env,
        }
        virtual_devices(devices, self.env)
        self.running: dict[int, Child] = {}
        self.started = time.monotonic()
        self.seconds: dict[int, float] = {}
        self.late: set[int] = set()

    def write(self, body: Callable[..., Any] | str, args: Sequence[Any]) -> None:
        source = body if isinstance(body, str) else textwrap.dedent(inspect.getsource(body))
        name = "main" if isinstance(body, str) else body.__name__
        task = {"name": name, "args": list(args), "initialize": self.initialize}
        (self.folder / "body.py").write_text(source)
        (self.folder / "task.json").write_text(json.dumps(task))

    def start(self, process: int) -> None:
        with open(self.folder / f"{process}.log", "wb") as log:
            self.running[process] = Child(
                [sys.executable, "-W", "error", str(CHILD), str(self.folder), str(process)],
                stdin=PIPE,  # held open: its end tells the child that we are gone
                stdout=log,
                stderr=STDOUT,
                env=self.env,
            )

    def wait(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while len(self.seconds) < len(self.running) and time.monotonic() < deadline:
            for process, child in self.running.items():
                if process not in self.seconds and child.poll() is not None:
                    self.seconds[process] = time.monotonic() - self.started
            time.sleep(0.02)
        self.late = set(self.running) - set(self.seconds)
        ask_for_stacks([self.running[process].pid for process in self.late])

    def end(self) -> None:
        for child in self.running.values():
            child.__exit__()

    def result(self, process: int) -> Result:
        log = self.folder / f"{process}.log"
        outcome = self.folder / f"{process}.json"
        told = json.loads(outcome.read_text()) if outcome.exists() else {}
        child = self.running.get(process)
        return Result(
            process,
            None if child is None or process in self.late else child.returncode,
            told.get("value"),
            told.get("error"),
            log.read_text(errors="replace") if log.exists() else "",
            self.seconds.get(process, time.monotonic() - self.started),
        )


def _logs(results: list[Result], timeout: float) -> str:
    lines = []
    for r in results:
        how = f"not done in {timeout} s" if r.status is None else f"exit status {r.status}"
        lines += [f"== process {r.process}: {how}, after {r.seconds:.1f} s", r.output]
    return "\n".join(lines)
