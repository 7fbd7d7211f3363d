"""The processes of a job find out among themselves that it is stuck."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest

from shardlift.cli.stuck import explain_stuck
from shardlift.launch import Cause, Diagnosis, Wait, job_watch
from shardlift.launch.diagnosis import ProcessState, compare_states
from shardlift.launch.job_watch import JobWatch, read_note


class Service:
    """The coordination service, without a service."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def key_value_set(self, key: str, value: str, allow_overwrite: bool = False) -> None:
        assert allow_overwrite or key not in self.values
        self.values[key] = value

    def key_value_dir_get(self, key: str) -> list[tuple[str, str]]:
        return [item for item in self.values.items() if item[0].startswith(f"{key}/")]

    def blocking_key_value_get(self, key: str, timeout_in_ms: int) -> str:
        del timeout_in_ms
        return self.values[key]

    def wait_at_barrier(self, barrier_id: str, timeout_in_ms: int) -> None:
        raise NotImplementedError


class Job:
    """Watches that share a service, and a clock that is moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int, end: bool = False) -> None:
        self.now, self.looking = 0.0, 0
        self.cpu: defaultdict[int, float] = defaultdict(float)
        self.reports: list[tuple[Diagnosis, bool]] = []
        self.left: list[int] = []
        monkeypatch.setattr(job_watch.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(job_watch.time, "sleep", lambda _: None)
        monkeypatch.setattr(job_watch, "own_cpu_seconds", lambda: self.cpu[self.looking])
        service = Service()
        self.watches = [
            JobWatch(service, (k, count), 10, end, self._report, lambda k=k: self.left.append(k))
            for k in range(count)
        ]

    def _report(self, diagnosis: Diagnosis, ended: bool) -> None:
        self.reports.append((diagnosis, ended))

    def run(self, seconds: int, busy: tuple[int, ...] = ()) -> None:
        for _ in range(seconds):
            self.now += 1
            for process, watch in enumerate(self.watches):
                self.looking = process
                self.cpu[process] += process in busy
                watch._look()


def test_all_are_idle(monkeypatch: pytest.MonkeyPatch):
    job = Job(monkeypatch, 3)
    job.run(5, busy=(0, 1, 2))
    job.run(30)
    ((diagnosis, ended),) = job.reports  # once
    assert len(diagnosis.states) == 3
    assert all(state.host and state.answer for state in diagnosis.states)
    assert not ended
    assert job.left == []


def test_one_that_computes_is_waited_for(monkeypatch: pytest.MonkeyPatch):
    job = Job(monkeypatch, 3)
    job.run(100, busy=(2,))
    assert job.reports == []


def test_a_job_that_goes_on_takes_its_notes_back(monkeypatch: pytest.MonkeyPatch):
    job = Job(monkeypatch, 2)
    job.run(30, busy=(0,))
    job.run(1, busy=(1,))  # just before process 0 becomes idle
    job.run(15)
    assert job.reports == []
    job.run(100)
    assert len(job.reports) == 1


def test_the_end_of_a_stuck_job(monkeypatch: pytest.MonkeyPatch):
    job = Job(monkeypatch, 2, end=True)
    job.watches[1].finish("")
    job.run(14)
    ((diagnosis, ended),) = job.reports
    assert diagnosis.states[1].wait is Wait.END
    assert ended
    assert job.left[0] == 0
    assert 1 in job.left
    assert job.watches[0].is_ending()


def test_a_failed_process_ends_a_job_that_waits_for_it(monkeypatch: pytest.MonkeyPatch):
    job = Job(monkeypatch, 2)
    job.watches[1].finish("ValueError: no")
    job.run(9)
    assert job.reports == []  # the others may still do something
    job.run(5)
    ((diagnosis, ended),) = job.reports
    assert (diagnosis.cause, diagnosis.apart) == (Cause.SOME_FAILED, (1,))
    assert ended
    text = explain_stuck(diagnosis, ended=True)
    assert "has failed: ValueError: no" in text
    assert "shardlift: process 1 failed, and process 0 can only wait" in text
    assert text.endswith("shardlift: the job was ended: it could not go on")
    assert "printed" not in text


def test_all_have_ended(monkeypatch: pytest.MonkeyPatch):
    job = Job(monkeypatch, 2)
    for watch in job.watches:
        watch.finish("")
    job.run(60)
    assert job.reports == []


def test_an_idle_note_does_not_replace_the_last_one(monkeypatch: pytest.MonkeyPatch):
    job = Job(monkeypatch, 2)
    job.watches[1].finish("ValueError: no")
    job.watches[1]._post("12.5", "")
    job.watches[1]._retract()
    note = json.loads(job.watches[0]._client.blocking_key_value_get("shardlift/note/1", 1))
    assert read_note(1, note).error == "ValueError: no"


def test_of_thousands_of_processes_a_few_are_shown():
    states = [ProcessState(k, 100 + k, Wait.CALL, None, "a") for k in range(4096)]
    states[7] = ProcessState(7, 107, Wait.SLEEP, None, "b")
    text = explain_stuck(compare_states(60, states), ended=False)
    assert "process 7 (pid 107 on b) sleeps" in text
    assert "... and 4087 more processes" in text
    assert "16 and 4079 more can only wait" in text
    assert len(text) < 4000
