"""``shardlift run`` in each process of a job that a scheduler started."""

import contextlib
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shardlift.capture.parts import read_whole
from shardlift.launch.job import free_port
from tests import children

pytestmark = pytest.mark.slow
exhaustive = pytest.mark.exhaustive
RUN = [sys.executable, "-m", "shardlift.cli", "run"]

START = """
import os, sys, time
import jax
import jax.numpy as jnp
address, count, me = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
jax.distributed.initialize(address, count, me)
step = jax.pmap(lambda x: jax.lax.psum(x, "i"), "i")
x = jnp.ones(1)
"""
STEPS = "for k in range(3): step(x).block_until_ready()\n"


def wait_until(done: Callable[[], bool], timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def wait_for(path: Path, timeout: float = 60) -> None:
    wait_until(path.exists, timeout)


@contextlib.contextmanager
def job(
    folder: Path, body: str, *options: str, processes: int = 2
) -> Iterator[list[children.Child]]:
    """The processes of a job on this machine, each started by hand."""
    (folder / "program.py").write_text(START + textwrap.dedent(body))
    address = f"127.0.0.1:{free_port()}"
    with contextlib.ExitStack() as stack:
        started = []
        for k in range(processes):
            command = [*RUN, *options, "program.py", address, str(processes), str(k)]
            env = children.plain_environment(JAX_PLATFORMS="cpu")
            started.append(stack.enter_context(children.Child(command, cwd=folder, env=env)))
        yield started


def record(folder: Path, body: str = STEPS, *options: str) -> list[children.Done]:
    with job(folder, body, "--record", "run.json", *options) as processes:
        return [process.finish(120) for process in processes]


def report(folder: Path, path: str = "run.json") -> str:
    command = [sys.executable, "-m", "shardlift.cli", "report", path]
    return children.run(command, cwd=folder, timeout=60).stdout


def ours(done: children.Done) -> list[str]:
    return [line for line in done.stderr.splitlines() if line.startswith("shardlift:")]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("run"))


def test_the_processes_make_one_record(tmp_path: Path):
    first, second = record(tmp_path)
    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert files(tmp_path) == ["run.json.0", "run.json.1"]
    whole = read_whole(tmp_path / "run.json")
    assert [(p.index, p.count, p.ended, bool(p.host)) for p in whole.processes] == [
        (0, 2, True, True),
        (1, 2, True, True),
    ]
    assert whole.sites[0].processes == (0, 1)
    assert whole.sites[0].calls == 6
    assert ours(second) == []
    assert ours(first) == [f"shardlift: next: shardlift report {tmp_path}/run.json"]


@exhaustive
def test_a_killed_process_leaves_what_it_had_seen(tmp_path: Path):
    path = tmp_path / "run.json"
    body = STEPS + "while not os.path.exists('killed'): time.sleep(0.05)\n"
    with job(tmp_path, body, "--record", "run.json") as processes:
        wait_for(tmp_path / "run.json.1")
        wait_for(tmp_path / "run.json.0")
        wait_until(lambda: sum(site.calls for site in read_whole(path).sites) == 6)
        processes[1].send_signal(signal.SIGKILL)
        processes[1].finish(60)
        (tmp_path / "killed").touch()
        # Process 0 ends, and waits for the other one by JAX.
        wait_until(lambda: read_whole(path).processes[0].ended)
        processes[0].send_signal(signal.SIGKILL)
        for process in processes:
            process.finish(60)
    whole = read_whole(tmp_path / "run.json")
    assert [process.index for process in whole.processes] == [0, 1]
    assert [process.ended for process in whole.processes] == [True, False]
    assert whole.sites[0].calls == 6
    assert "the rest of process 1 of 2 (on " in report(tmp_path)


@exhaustive
def test_programs_side_by_side_keep_their_own_records(tmp_path: Path):
    """They never join: a sweep over parameters, for example."""
    env = [{"SLURM_PROCID": str(k), "SLURM_STEP_NUM_TASKS": "2"} for k in range(2)]
    (tmp_path / "program.py").write_text(
        "import jax\njax.pmap(lambda x: x)(jax.numpy.ones((1, 1)))\n"
    )
    for k in range(2):
        command = [*RUN, "--record", "run.json", "program.py"]
        done = children.run(command, cwd=tmp_path, env=children.plain_environment(**env[k]))
        assert ours(done)[-1] == f"shardlift: next: shardlift report {tmp_path}/run.json.{k}"
    assert files(tmp_path) == ["run.json.0", "run.json.1"]
    command = [sys.executable, "-m", "shardlift.cli", "report", "run.json"]
    done = children.run(command, cwd=tmp_path)
    assert done.returncode == 2
    assert "ran on their own" in done.stderr
