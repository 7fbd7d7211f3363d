"""Start real processes under one coordinator and run a function in each.

    def body(scale):
        import jax
        return jax.process_index() * scale

    results = run_processes(body, processes=2, devices=4, args=(10,))
    assert [r.value for r in results] == [0, 10]

The body travels as source, so it imports what it needs and closes over nothing; its arguments
and its result travel as JSON. ``jax.distributed`` is initialised before it is called, with gloo
between the processes. Every process is ended before ``run_processes`` returns.
"""

import contextlib
import inspect
import json
import os
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from shardlift.launch.job import free_port
from shardlift.launch.program import virtual_devices
from tests.children import STDOUT, Child, ask_for_stacks

CHILD = Path(__file__).with_name("child.py")


class Result(NamedTuple):
    """How one process ended."""

    status: int | None  # None: ended by the harness when the time was up
    value: Any  # what the body returned
    error: str | None  # "ValueError: what it said", when the body raised
    output: str  # stdout and stderr


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
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder, environ = Path(name), _environment(devices, env or {})
        _write(folder, body, args, {"num_processes": processes, **(initialize or {})})
        command = [sys.executable, "-W", "error", str(CHILD), name]
        running = [
            stack.enter_context(Child([*command, str(k)], stderr=STDOUT, env=environ))
            for k in range(processes)
        ]
        late = _wait(running, timeout)
        results = [_result(folder, k, child, k in late) for k, child in enumerate(running)]
    logs = [f"== process {k}: status {r.status}\n{r.output}" for k, r in enumerate(results)]
    assert not check or all(r.status == 0 for r in results), "\n".join(logs)
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


def _environment(devices: int, env: dict[str, str]) -> dict[str, str]:
    environ = {
        **os.environ,
        "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
        "JAX_NUMPY_DTYPE_PROMOTION": "strict",
        "JAX_ENABLE_COMPILATION_CACHE": "0",  # its warnings would be errors
        "PYTHONUNBUFFERED": "1",
        **env,
    }
    virtual_devices(devices, environ)
    return environ


def _write(
    folder: Path, body: Callable[..., Any] | str, args: Sequence[Any], initialize: dict[str, Any]
) -> None:
    """What `child.py` reads."""
    source = body if isinstance(body, str) else textwrap.dedent(inspect.getsource(body))
    name = "main" if isinstance(body, str) else body.__name__
    defaults = {
        "coordinator_address": f"127.0.0.1:{free_port()}",
        "cluster_detection_method": "deactivate",
        "initialization_timeout": 30,
        "heartbeat_timeout_seconds": 10,
        "shutdown_timeout_seconds": 10,
    }
    task = {"name": name, "args": list(args), "initialize": {**defaults, **initialize}}
    (folder / "body.py").write_text(source)
    (folder / "task.json").write_text(json.dumps(task))


def _wait(running: Sequence[Child], timeout: float) -> list[int]:
    """Wait for the end of all; the numbers of those that are late, which are ended."""
    deadline = time.monotonic() + timeout
    while any(child.poll() is None for child in running) and time.monotonic() < deadline:
        time.sleep(0.02)
    late = [k for k, child in enumerate(running) if child.returncode is None]
    ask_for_stacks([running[k].pid for k in late])
    return late


def _result(folder: Path, process: int, child: Child, is_late: bool) -> Result:
    outcome = folder / f"{process}.json"
    told = json.loads(outcome.read_text()) if outcome.exists() else {}
    status = None if is_late else child.returncode
    return Result(status, told.get("value"), told.get("error"), child.stdout_text)
