"""``shardlift run``, as a user types it."""

from __future__ import annotations

import os
import re
import signal
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests import children
from tests.processes.harness import assert_gone

slow, exhaustive = pytest.mark.slow, pytest.mark.exhaustive
either = pytest.mark.parametrize("bad", [pytest.param(0, marks=exhaustive), 1])
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
    "arguments": "import sys; print(sys.argv, sys.path[0], __name__, __file__, __spec__)",
    "exception": "def f():\n    raise ValueError('no')\nf()",
    "exit": "import sys; sys.exit(5)",
    "message": "import sys; sys.exit('sorry')",
    "syntax": "x = = 1",
    "main is main": "import sys; x = 1; print(sys.modules['__main__'].x)",
    "exit handler": (
        "import atexit, sys; y = 2; atexit.register(lambda: print(sys.modules['__main__'].y))"
    ),
    "pickle": "import pickle\nclass A: pass\nprint(pickle.loads(pickle.dumps(A())).__module__)",
    "encoding": "# -*- coding: latin-1 -*-\nprint('gr\\xfc\\xdfe'.upper())",
}


@pytest.mark.parametrize("name", PLAIN)
def test_one_process_is_plain_python(tmp_path: Path, name: str):
    (tmp_path / "program.py").write_text(PLAIN[name])
    path = "./program.py" if name in ("arguments", "exception") else str(tmp_path / "program.py")
    plain, ours = (
        children.run([*how, path, "a", "--b"], cwd=tmp_path) for how in ([sys.executable], RUN)
    )
    assert (ours.stdout, ours.stderr, ours.returncode) == (
        plain.stdout,
        plain.stderr,
        plain.returncode,
    )


def test_a_module(tmp_path: Path):
    (tmp_path / "tool").mkdir()
    (tmp_path / "tool" / "__init__.py").write_text("")
    (tmp_path / "tool" / "main.py").write_text(
        "import sys; print(sys.argv[1:], __name__, __package__)"
    )
    ours = children.run(
        [*RUN, "-m", "tool.main", "-m", "x"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert ours.stdout == "['-m', 'x'] __main__ tool\n", ours.stderr


@slow
def test_devices(tmp_path: Path):
    ours = shardlift_run(tmp_path, "import jax; print(jax.devices())", "--devices", "3")
    assert ours.stdout.count("CpuDevice") == 3, ours.stderr


def test_no_such_program():
    ours = children.run([*RUN, "nowhere.py"])
    assert ours.returncode == 2
    assert "no such program: nowhere.py" in ours.stderr


def test_interrupt_of_one_process(tmp_path: Path):
    script = tmp_path / "program.py"
    script.write_text("import time; print('up', flush=True); time.sleep(600)")
    with children.Child([*RUN, str(script)], stdout=children.PIPE) as job:
        assert job.stdout
        assert job.stdout.readline() == "up\n"
        job.send_signal(signal.SIGINT)
        done = job.finish(20)
    assert done.returncode == -signal.SIGINT
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")


# Many processes.

WORLD = """
    import sys
    import jax
    import jax.numpy as jnp
    {initialize}
    total = jax.pmap(lambda x: jax.lax.psum(x, "i"), "i")(jnp.ones(jax.local_device_count()))
    total = total.addressable_data(0)
    print(f"world {{jax.process_index()}} {{jax.process_count()}} {{total[0]}} {{sys.argv[1:]}}")
"""


@slow
@pytest.mark.parametrize(
    "initialize",
    [
        pytest.param("", marks=exhaustive),
        pytest.param("jax.distributed.initialize()", marks=exhaustive),
        "jax.distributed.initialize('10.0.0.1:1', num_processes=2)",
        "from jax.distributed import initialize as i; i(); assert jax.distributed.is_initialized()",
    ],
    ids=["never", "plain", "with arguments", "imported"],
)
def test_joins_the_job(tmp_path: Path, initialize: str):
    source = WORLD.format(initialize=initialize)
    ours = shardlift_run(tmp_path, source, "--processes", "2", "--devices", "2", args=("--n", "1"))
    assert ours.returncode == 0, ours.stderr
    for process in range(2):
        assert f"[{process}] world {process} 2 4.0 ['--n', '1']" in ours.stdout


@slow
@pytest.mark.parametrize(("own", "threads"), [({}, "16"), ({"PJRT_NPROC": "3"}, "3")])
def test_threads_enough_for_the_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: dict[str, str], threads: str
):
    monkeypatch.delenv("PJRT_NPROC", raising=False)
    for name, value in ({"NPROC": "1"} | own).items():
        monkeypatch.setenv(name, value)
    source = "import os; print('threads', os.environ['PJRT_NPROC'])"
    ours = shardlift_run(tmp_path, source, "--processes", "2", "--devices", "8")
    assert sorted(ours.stdout.splitlines()) == [f"[{k}] threads {threads}" for k in range(2)]


@slow
def test_arguments_that_disagree(tmp_path: Path):
    source = WORLD.format(initialize="jax.distributed.initialize(num_processes=3)")
    ours = shardlift_run(tmp_path, source, "--processes", "2")
    assert ours.returncode == 1
    assert (
        "num_processes=3, but shardlift run started this process with num_processes=2"
        in ours.stderr
    )


STEP = """
    import os, sys, time
    import jax
    import jax.numpy as jnp
    step = jax.pmap(lambda x: jax.lax.psum(x, "i"), "i")
    x = jnp.ones(jax.local_device_count())
    step(x).block_until_ready()
    me = jax.process_index()
    open(os.path.join({folder!r}, str(me) + ".pid"), "w").write(str(os.getpid()))
    if me == {bad}:
        time.sleep(0.5)
        {fault}
    step(x).block_until_ready()
    time.sleep(600)  # the launcher has to end it: a test has less time
"""


def faulty(folder: Path, bad: int, fault: str, processes: int = 2):
    source = textwrap.dedent(STEP).format(folder=str(folder), bad=bad, fault=fault)
    ours = shardlift_run(folder, source, "--processes", str(processes))
    assert_gone([int(f.read_text()) for f in folder.glob("*.pid")])
    return ours


@slow
@either
def test_an_exception_is_the_root_cause(tmp_path: Path, bad: int):
    ours = faulty(tmp_path, bad, "raise KeyError('lost')")
    assert ours.returncode == 1
    said = ours.stderr[ours.stderr.index("shardlift:") :]
    assert said.startswith(f"shardlift: process {bad} of 2 failed first, with exit status 1")
    assert re.search(
        r"its traceback:\nTraceback .*\n  File .*program.py\", line \d+, in <module>", said
    )
    assert said.rstrip().endswith("KeyError: 'lost'")


@slow
def test_the_exit_status_is_returned(tmp_path: Path):
    ours = faulty(tmp_path, 1, "sys.exit(7)")
    assert ours.returncode == 7
    assert "process 1 of 2 failed first, with exit status 7" in ours.stderr


@slow
@either
def test_a_killed_process_is_the_root_cause(tmp_path: Path, bad: int):
    ours = faulty(tmp_path, bad, "os.kill(os.getpid(), 9)")
    assert ours.returncode == 137
    assert f"process {bad} of 2 was killed by signal 9" in ours.stderr


@slow
@either
def test_a_process_that_never_joins(tmp_path: Path, bad: int):
    source = f"""
        import json, sys, time
        if json.loads(sys.orig_argv[-1])["place"]["process"] == {bad}:
            time.sleep(600)
        import jax
    """
    ours = shardlift_run(tmp_path, source, "--processes", "2", "--start-timeout", "3")
    assert ours.returncode != 0
    assert f"process {1 - bad} of 2" in ours.stderr
    assert f"waiting for process {bad}, which had not imported jax yet" in ours.stderr


ASLEEP = """
    import os, subprocess, sys, time
    import jax
    jax.devices()
    me = jax.process_index()
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    open(os.path.join({folder!r}, str(me) + ".pid"), "w").write(str(os.getpid()))
    time.sleep(600)
"""


@slow
@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=exhaustive),
        (signal.SIGKILL, -9),
    ],
    ids=["ctrl-c", "term", "kill"],
)
def test_a_signal_ends_all(tmp_path: Path, number: int, status: int):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(ASLEEP).format(folder=str(tmp_path)))
    with children.Child([*RUN, "--processes", "2", str(script)]) as job:
        pids = wait_for(tmp_path, 2)
        job.send_signal(number)
        job.finish(20)
    assert job.returncode == status
    assert_gone(pids)


PATIENT = """
import sys
from shardlift.launch import Program, launch
program = Program(sys.argv[1])
outcome = launch(program, processes=2, devices=1, emit=lambda *_: None, grace=600)
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
