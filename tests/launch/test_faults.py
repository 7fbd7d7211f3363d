"""Whatever happens to one process of a job, or to the launcher, every process leaves its record."""

import signal
import sys
import textwrap
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from shardlift.capture.parts import read_whole
from tests import children
from tests.processes.harness import assert_gone

pytestmark = pytest.mark.slow
RUN = [sys.executable, "-m", "shardlift.cli", "run", "--record", "run.json"]

# Each process starts another one, which has to be ended too. The fault comes when a part of every
# process is there, with one call, and none comes by itself any more: the second call is written
# because of the fault.
PROGRAM = """
    import os, resource, signal, subprocess, sys, threading, time
    import jax, jax.numpy as jnp
    from shardlift.launch.session import RunSession
    step = jax.pmap(lambda x: jax.lax.psum(x, "i"), "i")
    x = jnp.ones(1)
    step(x).block_until_ready()
    me, began = jax.process_index(), time.time()
    for part in ("run.json.0", "run.json.1"):
        while not os.path.exists(part) or os.stat(part).st_mtime < began:
            time.sleep(0.02)
    write = RunSession.write
    RunSession.write = lambda session, **how: (
        threading.current_thread().name == "shardlift-record" or write(session, **how)
    )
    step(x).block_until_ready()
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    with open(f"{me}.pid", "w") as file:
        file.write(str(os.getpid()))
    if me == BAD:
        FAULT
    step(x).block_until_ready()
    END
"""


class Fault(NamedTuple):
    """What one process does, how the job ends, and what is said of it."""

    source: str
    status: int
    said: str
    bad: int = 1
    end: str = "time.sleep(300)"  # the launcher has to end it: a test has less time


KILL = "os.kill(os.getpid(), signal.{})"
FULL = "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))"
FAULTS = {
    "raises": Fault("raise KeyError('lost')", 1, "1 of 2 failed first, with exit status 1"),
    "exits at once": Fault("os._exit(3)", 3, "1 of 2 failed first, with exit status 3"),
    "is interrupted": Fault(KILL.format("SIGINT"), 130, "1 of 2 failed first"),
    "is killed": Fault(KILL.format("SIGKILL"), 137, "1 of 2 was killed by signal 9"),
    "process 0 is killed": Fault(KILL.format("SIGKILL"), 137, "0 of 2 was killed by signal 9", 0),
    "has a full disk": Fault(FULL, 2, "run.json.1 could not be written", end=""),
}
COMMON = ("raises", "is killed", "has a full disk")
RARE = [pytest.param(k, marks=pytest.mark.exhaustive) for k in FAULTS if k not in COMMON]


def start(folder: Path, fault: Fault) -> children.Child:
    source = textwrap.dedent(PROGRAM).replace("BAD", str(fault.bad)).replace("END", fault.end)
    (folder / "program.py").write_text(source.replace("FAULT", fault.source))
    return children.Child([*RUN, "--processes", "2", "program.py"], cwd=folder)


def wait_for(path: Path, child: children.Child) -> None:
    """Until a file is there; the program must not end before."""
    deadline = time.monotonic() + 60
    while not path.exists() or not path.read_bytes():
        assert child.poll() is None, child.stderr_text
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("name", [*COMMON, *RARE])
def test_one_process(tmp_path: Path, name: str):
    fault = FAULTS[name]
    with start(tmp_path, fault) as job:
        done = job.finish(120)
    assert done.returncode == fault.status, done.stderr
    assert fault.said in done.stderr
    assert_gone([int(file.read_text()) for file in tmp_path.glob("*.pid")])
    whole = read_whole(tmp_path / "run.json")
    assert [process.index for process in whole.processes] == [0, 1]
    # Without process 0, which has the coordinator, JAX ends the others at once.
    newest = 1 if fault.bad == 0 else 2
    assert whole.sites[0].calls >= newest + 1


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGKILL, -9),
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=pytest.mark.exhaustive),
    ],
)
def test_the_launcher(tmp_path: Path, number: int, status: int):
    with start(tmp_path, Fault("time.sleep(300)", 0, "")) as job:
        for k in range(2):
            wait_for(tmp_path / f"{k}.pid", job)
        pids = [int(file.read_text()) for file in tmp_path.glob("*.pid")]
        job.send_signal(number)
        done = job.finish(60)
    assert done.returncode == status
    assert_gone(pids)
    whole = read_whole(tmp_path / "run.json")
    assert whole.sites[0].processes == (0, 1)
    assert whole.sites[0].calls >= 4
