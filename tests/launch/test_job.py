"""Jobs of programs that do not import JAX, and so start fast."""

import json
import os
import re
import signal
import socket
import sys
import textwrap
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shardlift.launch import job as job_module
from shardlift.launch.job import STUCK_STATUS, Failure, Job, Lines, Outcome, signal_group
from shardlift.launch.program import Program
from shardlift.launch.stuck import StuckJob, WhenStuck
from tests import children
from tests.processes.harness import assert_gone

WHO = """
import json, os, signal, sys, time
place = json.loads(sys.orig_argv[-1])["place"]
me = place["process"]
"""


def run(folder: Path, source: str, *args: str, **options: Any) -> tuple[Outcome, list[Any]]:
    """How a job ends, and what its processes print."""
    script = folder / "program.py"
    script.write_text(WHO + textwrap.dedent(source))
    lines: list[tuple[int, str, str]] = []
    given: dict[str, Any] = {
        "emit": lambda *line: lines.append(line),
        "environ": {**os.environ, "NPROC": "1", "PJRT_NPROC": "3"},
        "grace": 0.5,
    }
    program = Program(str(script), args)
    outcome = Job(program, processes=2, devices=8, **given | options).run()
    return outcome, sorted(lines)


def test_a_job(tmp_path: Path):
    source = """
        print(sys.argv[1:], os.environ["JAX_NUM_CPU_DEVICES"], os.environ["PJRT_NPROC"])
        print(os.environ["JAX_CPU_COLLECTIVES_IMPLEMENTATION"])
        print("coordinator", place["coordinator"])
        print([os.get_inheritable(place[name]) for name in ("link", "dump")])
        print("error", file=sys.stderr)
    """
    outcome, lines = run(tmp_path, source, "--epochs", "3")
    assert outcome == Outcome(0)
    (coordinator,) = {line for _, _, line in lines if line.startswith("coordinator")}
    assert re.fullmatch(r"coordinator 127\.0\.0\.1:[1-9]\d*", coordinator)
    printed = ["['--epochs', '3'] 8 3", "[False, False]", coordinator, "gloo"]
    expected = [("stderr", "error"), *(("stdout", line) for line in printed)]
    assert lines == [(k, *line) for k in range(2) for line in expected]


@pytest.mark.parametrize(
    ("fault", "status", "told"),
    [
        ("raise KeyError('lost')", 1, 1),
        ("sys.exit(7)", 7, 7),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, -9),
    ],
)
def test_the_first_process_that_fails_is_the_root_cause(
    tmp_path: Path, fault: str, status: int, told: int
):
    outcome, _ = run(tmp_path, f"if me == 1:\n    {fault}\ntime.sleep(300)")
    assert outcome.status == status
    assert outcome.failure is not None
    assert (outcome.failure.process, outcome.failure.status) == (1, told)
    if "raise" in fault:
        assert outcome.failure.traceback.endswith("KeyError: 'lost'\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_for_the_job(tmp_path: Path, number: int) -> None:
    """Each process is told to write its record, and then has time to end by itself."""
    waits = f"""
        from shardlift.launch.child import Control
        Control.tell_written = lambda *_: (open(f"{tmp_path}/{{me}}", "w").close(), os._exit(0))
        signal.signal({number:d}, signal.SIG_IGN)
        print("waits")
        time.sleep(300)
    """
    waiting: list[int] = []

    def emit(process: int, *_: str) -> None:
        waiting.append(process)
        if len(waiting) == 2:
            os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    outcome, _ = run(tmp_path, waits, emit=emit, grace=60)
    assert outcome == Outcome(128 + number, interrupted=True)
    assert all((tmp_path / name).exists() for name in "01")
    assert signal.getsignal(number) is before


def test_what_a_process_tells():
    job = Job(Program("train.py"), 1, None, emit=lambda *_: None)
    job.workers = [job_module._Worker(popen=None, link=None)]  # type: ignore[arg-type]
    (worker,) = job.workers
    for told in ({"ready": True}, {"stage": "joined"}, {"writing": True}):
        job._told(0, json.dumps({"at": 1.0, **told}))
    assert (worker.ready, worker.stage, worker.writing) == (True, "joined", True)
    job._told(0, '{"at": 3.0, "writing": false, "unwritten": true}')
    assert (worker.writing, worker.unwritten) == (False, True)
    job._told(0, '{"at": 4.0, "failed": 3, "traceback": "lost", "advice": ["look"]}')
    assert worker.failures == [(4.0, Failure(0, 3, "lost", advice=("look",)))]


def test_the_root_cause_of_a_job_that_never_came_together(monkeypatch: pytest.MonkeyPatch):
    """One process was killed; the others failed before, or had not imported jax yet."""
    monkeypatch.setattr(job_module, "_SETTLE", 0)
    job = Job(Program("train.py"), 3, None, emit=lambda *_: None)
    ends = [1, -9, None]
    job.workers = [
        job_module._Worker(SimpleNamespace(poll=lambda end=end: end, returncode=end), link=None)  # type: ignore[arg-type]
        for end in ends
    ]
    job._told(0, '{"at": 4.0, "failed": 1, "traceback": "late", "stage": "joining"}')
    assert job._root_cause() == Failure(1, -9, "")
    job._told(1, '{"at": 5.0, "failed": 1, "traceback": "later"}')
    assert job._root_cause() == Failure(0, 1, "late", waiting_for=(1, 2))


def test_a_process_answers_while_its_link_is_open():
    job = Job(Program("train.py"), 1, None, emit=lambda *_: None)
    ours, theirs = socket.socketpair()
    running = SimpleNamespace(poll=lambda: None)
    worker = job_module._Worker(popen=running, link=ours, ready=True)  # type: ignore[arg-type]
    job.workers = [worker]
    job._listen(ours, Lines(partial(job._told, 0)))
    theirs.send(b'{"at": 1.0, "stage": "joined"}\n')
    assert job._pump()
    assert (job.heard, worker.stage, worker.gone, worker.answers()) == (1, "joined", None, True)
    theirs.close()
    assert job._pump()
    assert (job.heard, worker.gone is None, worker.answers()) == (2, False, False)
    assert not job.selector.get_map()
    job.close()


def test_a_job_in_which_nothing_happens_is_stuck(monkeypatch: pytest.MonkeyPatch):
    def looks(after: float) -> list[bool]:
        stuck = WhenStuck(after, report=lambda _: None)
        job = Job(Program("train.py"), 2, None, emit=lambda *_: None, when_stuck=stuck)
        return [job._is_stuck() for _ in range(3)]

    monkeypatch.setattr(job_module, "cpu_seconds", lambda _: ())
    assert looks(0) == [False, True, False]
    once = iter([()])
    monkeypatch.setattr(job_module, "cpu_seconds", lambda _: next(once))
    assert looks(600) == [False] * 3  # the next look comes later
    monkeypatch.setattr(job_module, "cpu_seconds", lambda _: None)  # there is no /proc
    assert looks(0) == [False] * 3


@pytest.mark.parametrize("end", [False, True])
def test_a_stuck_job_shows_its_stacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: bool
) -> None:
    """It is left alone, and ends as if nothing had been said, or is ended."""
    go_on = tmp_path / "go_on"
    waits = f"""
        open(f"{tmp_path}/{{me}}.up", "w").close()
        while not os.path.exists("{go_on}"):
            time.sleep(0.02)
        print("went on")
    """
    reports: list[StuckJob] = []

    def report(stuck: StuckJob) -> None:
        reports.append(stuck)
        go_on.touch()

    def cpu(_: object) -> tuple[float, ...] | None:
        return () if len([*tmp_path.glob("*.up")]) == 2 and not go_on.exists() else None

    monkeypatch.setattr(job_module, "cpu_seconds", cpu)
    outcome, lines = run(tmp_path, waits, when_stuck=WhenStuck(0.01, report, end))
    (stuck,) = [outcome.stuck] if end else reports
    assert stuck is not None
    assert stuck.seconds >= 0.01
    stacks = [state.stack or () for state in stuck.states]
    assert [stack[0].file for stack in stacks] == [f"{tmp_path}/program.py"] * 2
    assert [(state.process, state.ended) for state in stuck.states] == [(0, False), (1, False)]
    assert outcome == (Outcome(STUCK_STATUS, stuck=stuck) if end else Outcome(0))
    assert [line for _, _, line in lines] == ["went on"] * (0 if end else 2)


LEAVES_A_CHILD = """
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
"""


def test_what_a_process_has_left_behind_is_ended():
    with children.Child([sys.executable, "-c", LEAVES_A_CHILD]) as leader:
        leader.finish(check=True)
        os.killpg(leader.pid, 0)  # a member is left
        signal_group(leader, signal.SIGKILL)
        assert_gone([leader.pid])


def test_another_process_with_the_same_id_is_left_alone(monkeypatch: pytest.MonkeyPatch):
    sent: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda pid, number: sent.append(pid))
    with children.Child([sys.executable, "-c", "pass"]) as ended:
        ended.finish(check=True)
        signal_group(ended, signal.SIGTERM)
        assert sent == [ended.pid]
        monkeypatch.setattr(ended, "pid", os.getpid())  # as if it had been given away
        signal_group(ended, signal.SIGTERM)
        assert len(sent) == 1
        monkeypatch.undo()
