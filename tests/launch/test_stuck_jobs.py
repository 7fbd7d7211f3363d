"""Jobs that hang on purpose: what the launcher says of them, and how they end."""

from __future__ import annotations

import os
import re
import signal
import sys
import textwrap
from pathlib import Path

import pytest

from shardlift.launch import STUCK_STATUS
from tests import children
from tests.processes.harness import assert_gone

from .test_launch import wait_for

pytestmark = pytest.mark.slow
RUN = [sys.executable, "-m", "shardlift.cli", "run", "--processes", "2"]
LIMIT = "4"


def run(folder: Path, source: str, *options: str, end: bool = True):
    (folder / "program.py").write_text(textwrap.dedent(source).lstrip())
    ending = ["--end-when-stuck"] if end else []
    command = [*RUN, "--stuck-after", LIMIT, *ending, *options, "program.py"]
    return children.run(command, cwd=folder)


def line_of(source: str, text: str) -> int:
    lines = textwrap.dedent(source).lstrip().splitlines()
    return next(k for k, line in enumerate(lines, 1) if text in line)


SKIPS = """
    import jax, jax.numpy as jnp

    def total(x):
        return jax.lax.psum(x, "i")

    step = jax.pmap(total, "i")
    x = jnp.ones(jax.local_device_count())

    def train():
        for k in range(4):
            if k == 2 and jax.process_index() == 1:
                continue
            print("step", k, float(step(x)[0]), flush=True)

    train()
"""


def test_a_process_that_skips_a_collective(tmp_path: Path):
    ours = run(tmp_path, SKIPS, "--devices", "2")
    assert ours.returncode == STUCK_STATUS, ours.stderr
    said = ours.stderr[ours.stderr.index("shardlift: for") :]
    place = f"program.py:{line_of(SKIPS, 'float(')} in train"
    site = f"the pmap `step` (total, program.py:{line_of(SKIPS, 'def total')})"
    assert re.search(r"process 0 \(pid \d+\) (waits|is in a call)", said)
    assert site in said
    assert re.search(r"process 1 \(pid \d+\) has come to the end of the program", said)
    assert f"a deadlock: the end was reached by process 1, but not by process 0 at {place}" in said
    assert said.count("shardlift: for") == 1
    assert said.rstrip().endswith("the job was ended, because of --end-when-stuck")


# Without pmap: what waits is found by the line of the program alone.
ONLY_ONE_GATHERS = """
    import jax, numpy as np
    from jax.experimental import multihost_utils
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()), ("i",))
    rows = np.ones(jax.local_device_count(), np.float32)
    x = jax.make_array_from_process_local_data(NamedSharding(mesh, P("i")), rows)

    def total(x):
        return jax.lax.psum(x, "i")

    step = jax.jit(jax.shard_map(total, mesh=mesh, in_specs=P("i"), out_specs=P()))
    step(x).block_until_ready()
    if jax.process_index() == 1:
        multihost_utils.process_allgather(rows)
    step(x).block_until_ready()
"""


@pytest.mark.exhaustive
def test_a_program_without_pmap(tmp_path: Path):
    ours = run(tmp_path, ONLY_ONE_GATHERS, "--no-patch")
    assert ours.returncode == STUCK_STATUS, ours.stderr
    assert f"program.py:{line_of(ONLY_ONE_GATHERS, 'allgather(')} in <module>" in ours.stderr
    assert "a deadlock: process" in ours.stderr


BARRIER = """
    import jax, shardlift
    if jax.process_index() == 0:
        shardlift.barrier("saved")
    shardlift.barrier("done")
"""


@pytest.mark.exhaustive
def test_processes_at_different_barriers(tmp_path: Path):
    ours = run(tmp_path, BARRIER)
    assert ours.returncode == STUCK_STATUS, ours.stderr
    assert (
        len(re.findall(r"process \d \(pid \d+\) waits for the others at a barrier", ours.stderr))
        == 2
    )
    zero, one = line_of(BARRIER, '"saved"'), line_of(BARRIER, '"done"')
    assert (
        f"a deadlock: process 1 at program.py:{one} in <module>, but process 0 at "
        f"program.py:{zero} in <module>" in ours.stderr
    )


ONE_WAITS = """
    import ctypes, os, sys, threading, time
    import jax, jax.numpy as jnp
    step = jax.pmap(lambda x: jax.lax.psum(x, "i"), "i")
    x = jnp.ones(jax.local_device_count())
    step(x).block_until_ready()
    if jax.process_index() == 1:
        WAIT
    step(x).block_until_ready()
    print("went on", flush=True)
"""


@pytest.mark.parametrize(
    ("wait", "said"),
    [
        ("time.sleep(300)", "sleeps"),
        pytest.param(
            "os.dup2(os.pipe()[0], 0); input('ready?')",
            "waits for input",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            "os.dup2(os.pipe()[0], 0); sys.stdin.readline()",
            "waits for input",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_a_process_that_sleeps_or_waits_for_input(tmp_path: Path, wait: str, said: str):
    source = ONE_WAITS.replace("WAIT", wait)
    ours = run(tmp_path, source)
    assert ours.returncode == STUCK_STATUS, ours.stderr
    line = line_of(source, wait)
    assert f"no deadlock in JAX: process 1 {said} at program.py:{line} in <module>" in ours.stderr
    assert "a deadlock" not in ours.stderr


@pytest.mark.exhaustive
def test_a_process_whose_main_thread_holds_pythons_lock(tmp_path: Path):
    source = ONE_WAITS.replace("WAIT", "ctypes.PyDLL(None).sleep(300)")
    ours = run(tmp_path, source)
    assert ours.returncode == STUCK_STATUS, ours.stderr
    assert f"program.py:{line_of(source, 'PyDLL')} in <module>" in ours.stderr


@pytest.mark.exhaustive
def test_a_job_that_goes_on_is_left_alone(tmp_path: Path):
    """It is told once, and ends as if nothing had been said."""
    ours = run(tmp_path, ONE_WAITS.replace("WAIT", "time.sleep(12)"), end=False)
    assert ours.returncode == 0, ours.stderr
    assert ours.stdout.count("went on") == 2
    assert ours.stderr.count("none of the 2 processes") == 1
    assert "the job is left as it is" in ours.stderr


BURN = "import time; end = time.monotonic() + 8\nwhile time.monotonic() < end: pass"


IN_A_CHILD = f"__import__('subprocess').run([sys.executable, '-c', {BURN!r}])"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "work",
    [
        pytest.param(f"exec({BURN!r})", id="itself"),
        pytest.param(IN_A_CHILD, id="in a process that it started"),
    ],
)
def test_a_process_that_computes_without_a_word_is_not_stuck(tmp_path: Path, work: str):
    ours = run(tmp_path, ONE_WAITS.replace("WAIT", work))
    assert ours.returncode == 0, ours.stderr
    assert "none of the 2 processes" not in ours.stderr


@pytest.mark.exhaustive
def test_it_can_be_turned_off(tmp_path: Path):
    ours = run(
        tmp_path, ONE_WAITS.replace("WAIT", "time.sleep(7)"), "--stuck-after", "0", end=False
    )
    assert ours.returncode == 0, ours.stderr
    assert "none of the 2 processes" not in ours.stderr


def test_options_that_do_not_go_together(tmp_path: Path):
    (tmp_path / "program.py").write_text("")
    command = [*RUN, "--stuck-after", "0", "--end-when-stuck", str(tmp_path / "program.py")]
    ours = children.run(command)
    assert ours.returncode == 2
    assert "--end-when-stuck needs --stuck-after above 0" in ours.stderr


DEADLOCK = """
    import os, signal, time
    import jax, jax.numpy as jnp
    step = jax.pmap(lambda x: jax.lax.psum(x, "i"), "i")
    x = jnp.ones(jax.local_device_count())
    step(x).block_until_ready()
    me = jax.process_index()
    HANDLER
    with open(f"{me}.pid", "w") as file:
        file.write(str(os.getpid()))
    if me == 0:
        step(x).block_until_ready()
    time.sleep(300)
"""


@pytest.mark.parametrize("process", [0, pytest.param(1, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(
    "handler",
    [
        "pass",
        pytest.param("signal.signal(signal.SIGTERM, print)", marks=pytest.mark.exhaustive),
    ],
    ids=["no handler", "a handler"],
)
def test_sigterm_to_one_process_ends_the_job(tmp_path: Path, process: int, handler: str):
    """JAX has a handler that only takes a note, and the main thread of 0 is inside XLA."""
    source = textwrap.dedent(DEADLOCK).replace("HANDLER", handler)
    (tmp_path / "program.py").write_text(source)
    command = [*RUN, "--stuck-after", "0", "program.py"]
    with children.Child(command, cwd=tmp_path) as job:
        pids = wait_for(tmp_path, 2, timeout=90)
        os.kill(int((tmp_path / f"{process}.pid").read_text()), signal.SIGTERM)
        done = job.finish()
    assert done.returncode == 128 + signal.SIGTERM
    assert f"process {process} of 2 was killed by signal 15" in done.stderr
    assert_gone(pids)


FORKS = """
    import multiprocessing, os, signal, time
    import jax
    jax.devices()
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(300,))
    child.start()
    child.terminate()
    child.join(30)
    print("ended by", child.exitcode, flush=True)
    time.sleep(8)   # longer than a process that was sent SIGTERM has
    print("still there", flush=True)
"""


@pytest.mark.exhaustive
def test_a_worker_that_the_program_ends_is_not_the_job(tmp_path: Path):
    ours = run(tmp_path, FORKS, "--stuck-after", "0", end=False)
    assert ours.returncode == 0, ours.stderr
    assert ours.stdout.count("ended by -15") == 2
    assert ours.stdout.count("still there") == 2


PREEMPTED = """
    import os, time
    import jax
    from jax.experimental import multihost_utils
    with open(f"{jax.process_index()}.pid", "w") as file:
        file.write(str(os.getpid()))
    for step in range(3000):
        if multihost_utils.reached_preemption_sync_point(step):
            print("saves at", step, flush=True)
            break
        time.sleep(0.02)
"""


def test_jax_still_hears_of_a_preemption(tmp_path: Path):
    (tmp_path / "program.py").write_text(textwrap.dedent(PREEMPTED))
    command = [*RUN, "--stuck-after", "0", "program.py"]
    with children.Child(command, cwd=tmp_path) as job:
        pids = wait_for(tmp_path, 2, timeout=90)
        os.kill(int((tmp_path / "1.pid").read_text()), signal.SIGTERM)
        done = job.finish()
    saved = re.findall(r"\[(\d)\] saves at (\d+)", done.stdout)
    assert len({step for _, step in saved}) == 1
    assert sorted(process for process, _ in saved) == ["0", "1"]
    assert_gone(pids)
