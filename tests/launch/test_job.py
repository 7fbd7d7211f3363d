"""Jobs of programs that do not import JAX, and so start fast."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from shardlift.launch import job as job_module
from shardlift.launch.job import Failure, Job, Outcome
from shardlift.launch.program import Program
from shardlift.launch.stuck import StuckJob, WhenStuck

WHO = """
import json, os, signal, sys, time
place = json.loads(sys.orig_argv[-1])["place"]
me = place["process"]
"""


def run(
    folder: Path, source: str, *args: str, processes: int = 2, when_stuck: WhenStuck | None = None
) -> tuple[Outcome, list[tuple[int, str, str]]]:
    """How a job ends, and what its processes print."""
    script = folder / "program.py"
    script.write_text(WHO + textwrap.dedent(source))
    lines: list[tuple[int, str, str]] = []
    outcome = Job(
        Program(str(script), args),
        processes=processes,
        devices=8,
        emit=lambda *line: lines.append(line),
        environ={**os.environ, "NPROC": "1", "PJRT_NPROC": "3"},
        when_stuck=when_stuck,
        grace=0.5,
    ).run()
    return outcome, sorted(lines)


def test_a_job(tmp_path: Path):
    source = """
        print(sys.argv[1:], os.environ["JAX_NUM_CPU_DEVICES"], os.environ["PJRT_NPROC"])
        print("coordinator", place["coordinator"])
        print("error", file=sys.stderr)
    """
    outcome, lines = run(tmp_path, source, "--epochs", "3")
    assert outcome == Outcome(0)
    (coordinator,) = {line for _, _, line in lines if line.startswith("coordinator")}
    assert re.fullmatch(r"coordinator 127\.0\.0\.1:[1-9]\d*", coordinator)
    printed = ["['--epochs', '3'] 8 3", coordinator]
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
def test_a_signal_is_kept_for_the_job(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    handle: Any = signal.getsignal
    monkeypatch.setattr(Job, "start", lambda job: handle(number)(number, None))
    monkeypatch.setattr(Job, "watch", lambda job, stops: stops)
    for name in ("kill", "close"):
        monkeypatch.setattr(Job, name, lambda job: None)
    before = signal.getsignal(number)
    assert object.__new__(Job).run() == [number]  # type: ignore[comparison-overlap]
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


def test_a_process_answers_while_its_link_is_open():
    ours, theirs = socket.socketpair()
    running = SimpleNamespace(poll=lambda: None)
    worker = job_module._Worker(popen=running, link=ours, ready=True)  # type: ignore[arg-type]
    assert worker.answers()
    ours.close()
    theirs.close()
    assert not worker.answers()


def test_a_job_in_which_nothing_happens_is_stuck(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(job_module, "cpu_seconds", lambda _: ())
    stuck = WhenStuck(0, report=lambda _: None)
    job = Job(Program("train.py"), 2, None, emit=lambda *_: None, when_stuck=stuck)
    assert [job._is_stuck() for _ in range(3)] == [False, True, False]
    monkeypatch.setattr(job_module, "cpu_seconds", lambda _: None)  # there is no /proc
    job = Job(Program("train.py"), 2, None, emit=lambda *_: None, when_stuck=stuck)
    assert [job._is_stuck() for _ in range(3)] == [False] * 3


@pytest.mark.slow
def test_a_job_that_goes_on_is_left_alone(tmp_path: Path):
    """It is told once, and ends as if nothing had been said."""
    reports: list[StuckJob] = []
    outcome, lines = run(
        tmp_path,
        "time.sleep(2)\nprint('went on')",
        when_stuck=WhenStuck(0.5, reports.append),
    )
    assert outcome == Outcome(0)
    assert len(reports) == 1
    assert [line for _, _, line in lines] == ["went on"] * 2
