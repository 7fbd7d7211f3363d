"""``shardlift run``, as a user types it."""

import signal
import sys
import textwrap
import time
from pathlib import Path

import pytest

from shardlift.cli.run import explain
from shardlift.launch.job import Job
from shardlift.launch.program import Program
from tests import children
from tests.processes.harness import assert_gone

slow = pytest.mark.slow
RUN = [sys.executable, "-m", "shardlift.cli", "run"]


def shardlift_run(folder: Path, source: str, *options: str, args=(), timeout: float = 180):
    script = folder / "program.py"
    script.write_text(textwrap.dedent(source))
    return children.run([*RUN, *options, str(script), *args], timeout=timeout)


def wait_for(path: Path, count: int, timeout: float = 30) -> list[int]:
    """The process ids that ``count`` processes wrote to files in ``path``."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        pids = [int(f.read_text()) for f in path.glob("*.pid") if f.read_text()]
        if len(pids) == count:
            return pids
        time.sleep(0.05)
    raise AssertionError(f"only {len(pids)} of {count} processes came")


# One process: as plain python.

PLAIN = {
    "exception": "def f():\n    raise ValueError('no')\nf()",
    "exit": "import sys; sys.exit(5)",
    "message": "import sys; sys.exit('sorry')",
    "syntax": "x = = 1",
    "encoding": "# -*- coding: latin-1 -*-\nprint('gr\\xfc\\xdfe'.upper())",
}


@pytest.mark.parametrize("name", PLAIN)
def test_one_process_is_plain_python(tmp_path: Path, name: str):
    (tmp_path / "program.py").write_text(PLAIN[name])
    path = "./program.py" if name == "exception" else str(tmp_path / "program.py")
    plain, ours = (
        children.run([*how, path, "a", "--b"], cwd=tmp_path) for how in ([sys.executable], RUN)
    )
    assert (ours.stdout, ours.stderr, ours.returncode) == (
        plain.stdout,
        plain.stderr,
        plain.returncode,
    )


def test_no_such_program():
    ours = children.run([*RUN, "nowhere.py"])
    assert ours.returncode == 2
    assert "no such program: nowhere.py" in ours.stderr


# Many processes.

WORLD = """
    import os, sys
    import jax
    import jax.numpy as jnp
    from jax.distributed import initialize as under_another_name
    jax.distributed.initialize()
    jax.distributed.initialize("10.0.0.1:1", num_processes=2)
    under_another_name()
    assert jax.distributed.is_initialized()
    try:
        jax.distributed.initialize(num_processes=3)
    except ValueError as error:
        print(error)
    total = jax.pmap(lambda x: jax.lax.psum(x, "i"), "i")(jnp.ones(jax.local_device_count()))
    total = total.addressable_data(0)
    print(f"world {jax.process_index()} {jax.process_count()} {total.sum()} {sys.argv[1:]}")
    open_files = [f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd")]
    mine = [os.readlink(path) for path in open_files if os.path.exists(path)]
    for kind in ("tcp", "tcp6"):
        for line in open(f"/proc/net/{kind}"):
            _, address, _, state, *_, = fields = line.split()
            if state == "0A" and f"socket:[{fields[9]}]" in mine:
                print("listens at", address.partition(":")[0])
"""


@slow
def test_a_job(tmp_path: Path):
    args = ("--n", "1")
    ours = shardlift_run(tmp_path, WORLD, "--processes", "2", "--devices", "2", args=args)
    assert ours.returncode == 0, ours.stderr
    for process in range(2):
        assert f"[{process}] world {process} 2 4.0 ['--n', '1']" in ours.stdout
    assert ours.stdout.count("num_processes=3, but shardlift run started this process with") == 2
    if sys.platform == "linux":  # nobody else can connect to the coordinator, nor to gloo
        listens = {
            line.rpartition(" ")[2] for line in ours.stdout.splitlines() if "listens" in line
        }
        loopback = "0100007F"  # as the kernel writes 127.0.0.1
        assert listens == {loopback, f"{'0' * 16}FFFF0000{loopback}"}


@slow
@pytest.mark.parametrize("bad", [pytest.param(0, marks=pytest.mark.exhaustive), 1])
def test_a_process_that_never_joins(tmp_path: Path, bad: int):
    source = f"""
        import json, sys, time
        if json.loads(sys.orig_argv[-1])["place"]["process"] == {bad}:
            time.sleep(600)
        import jax
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(source))
    program = Program(str(tmp_path / "program.py"))
    done = Job(program, processes=2, devices=1, emit=lambda *_: None, start_timeout=3).run()
    assert done.status != 0
    assert done.failure is not None
    text = explain(done.failure, 2)
    assert f"process {1 - bad} of 2" in text
    assert f"waiting for process {bad}, which had not imported jax yet" in text


ASLEEP = """
    import os, subprocess, sys, time
    import jax
    jax.devices()
    me = jax.process_index()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    open(os.path.join({folder!r}, str(me) + ".pid"), "w").write(str(os.getpid()))
    time.sleep(600)
"""


PATIENT = """
import sys
from shardlift.launch.job import Job
from shardlift.launch.program import Program
program = Program(sys.argv[1])
outcome = Job(program, processes=2, devices=1, emit=lambda *_: None, grace=600).run()
sys.exit(outcome.status)
"""


@slow
def test_a_second_interrupt_does_not_wait(tmp_path: Path):
    script = tmp_path / "program.py"
    deaf = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    script.write_text(deaf + textwrap.dedent(ASLEEP).format(folder=str(tmp_path)))
    with children.Child([sys.executable, "-c", PATIENT, str(script)]) as job:
        pids = wait_for(tmp_path, 2)
        for _ in range(2):
            job.send_signal(signal.SIGINT)
            time.sleep(1)
        job.finish(20)  # of the 600 s that the processes have
    assert job.returncode == 130
    assert_gone(pids)
