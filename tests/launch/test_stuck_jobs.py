"""Jobs that hang on purpose: what the launcher says of them, and how they end."""

from __future__ import annotations

import os
import re
import signal
import sys
import textwrap
from pathlib import Path

import pytest

from shardlift.capture.parts import read_whole
from shardlift.launch.job import STUCK_STATUS
from tests import children
from tests.processes.harness import assert_gone

from .test_launch import wait_for

pytestmark = pytest.mark.slow
RUN = [sys.executable, "-m", "shardlift.cli", "run", "--processes", "2"]


STUCK = """
    import ctypes, os, signal, time
    import jax, jax.numpy as jnp

    step = jax.pmap(lambda x: jax.lax.psum(x, "i"), "i")
    x = jnp.ones(1)
    step(x).block_until_ready()
    me = jax.process_index()
    while not all(os.path.exists(f"run.json.{k}") for k in range(4)):
        time.sleep(0.05)
    if me == 1:
        ctypes.PyDLL(None).sleep(300)  # holds Python's lock
    if me == 2:
        os.kill(os.getpid(), signal.SIGSTOP)
    if me == 3:
        raise SystemExit
    step(x).block_until_ready()
"""


def line_of(text: str) -> int:
    return textwrap.dedent(STUCK).splitlines().index(text) + 1


def test_a_stuck_job(tmp_path: Path):
    (tmp_path / "program.py").write_text(textwrap.dedent(STUCK))
    options = ["--processes", "4", "--stuck-after", "4", "--end-when-stuck"]
    options += ["--record", "run.json"]
    ours = children.run([*RUN, *options, "program.py"], cwd=tmp_path)
    assert ours.returncode == STUCK_STATUS, ours.stderr
    said = ours.stderr[ours.stderr.index("shardlift: for") :]
    step = len(textwrap.dedent(STUCK).splitlines())
    holds = line_of("    ctypes.PyDLL(None).sleep(300)  # holds Python's lock")
    assert re.search(rf"process 0 \(pid \d+\) waits at program.py:{step} in <module>: step", said)
    assert re.search(
        rf"process 1 \(pid \d+\) waits at program.py:{holds} in <module>: ctypes", said
    )
    assert re.search(r"process 2 \(pid \d+\) does not answer", said)
    assert re.search(r"process 3 \(pid \d+\) has come to the end of the program", said)
    assert "shardlift: the job was ended, because of --end-when-stuck\n" in said
    whole = read_whole(tmp_path / "run.json")
    assert [process.index for process in whole.processes] == [0, 1, 2, 3]


def test_options_that_do_not_go_together(tmp_path: Path):
    (tmp_path / "program.py").write_text("")
    for after in (["--processes", "2", "--stuck-after", "0"], ["--processes", "1"]):
        ours = children.run([*RUN, *after, "--end-when-stuck", str(tmp_path / "program.py")])
        assert ours.returncode == 2
        assert "--end-when-stuck needs --processes, and --stuck-after above 0" in ours.stderr


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


@pytest.mark.parametrize(
    ("process", "handler"),
    [
        (0, "pass"),
        pytest.param(1, "signal.signal(signal.SIGTERM, print)", marks=pytest.mark.exhaustive),
    ],
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
    (tmp_path / "program.py").write_text(textwrap.dedent(FORKS))
    ours = children.run([*RUN, "--stuck-after", "0", "program.py"], cwd=tmp_path)
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
