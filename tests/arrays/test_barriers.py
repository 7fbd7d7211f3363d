"""The barrier in a job of many processes, with a coordination service of our own."""

from __future__ import annotations

import threading

import jax
import pytest
from jax.experimental import multihost_utils

import shardlift
from shardlift import _compat
from shardlift.arrays.barriers import list_processes


class Service:
    def __init__(self, arrived=(), error=""):
        self.arrived, self.error = arrived, error
        self.keys, self.barriers = [], []

    def key_value_set(self, key, value, allow_overwrite=False):
        self.keys.append(key)

    def wait_at_barrier(self, barrier_id, timeout_in_ms):
        self.barriers.append((barrier_id, timeout_in_ms))
        if self.error:
            raise jax.errors.JaxRuntimeError(self.error)

    def key_value_dir_get(self, key):
        return [(f"{key}/{process}", "here") for process in self.arrived]


@pytest.fixture
def job(monkeypatch):
    """Process 1 of three."""

    def start(service):
        monkeypatch.setattr(jax, "process_count", lambda: 3)
        monkeypatch.setattr(jax, "process_index", lambda: 1)
        monkeypatch.setattr(_compat, "coordination", lambda: service)
        return service

    return start


def test_a_name_can_be_used_again(job):
    service = job(Service())
    shardlift.barrier("again", timeout=2)
    shardlift.barrier("again", timeout=2)
    (first, milliseconds), (second, _) = service.barriers
    assert first != second
    assert milliseconds == 2000
    assert service.keys == [f"{first}/1", f"{second}/1"]


def test_the_message_names_those_who_did_not_arrive(job):
    job(Service(arrived=(0, 1), error="DEADLINE_EXCEEDED: barrier"))
    with pytest.raises(TimeoutError, match=r"process 2 of 3 did not arrive \(processes 0, 1 did\)"):
        shardlift.barrier("missing", timeout=1)


def test_a_process_that_comes_too_late_is_told_so(job):
    job(Service(arrived=(0, 1, 2), error="DEADLINE_EXCEEDED: barrier"))
    with pytest.raises(TimeoutError, match="by now all 3 have arrived"):
        shardlift.barrier("late", timeout=1)


def test_a_broken_job_is_an_error_of_its_own(job):
    job(Service(error="UNAVAILABLE: peer is gone\nmore"))
    with pytest.raises(RuntimeError, match="barrier 'broken' broke: UNAVAILABLE: peer is gone$"):
        shardlift.barrier("broken")


def test_without_the_service_the_public_barrier_is_used(job, monkeypatch):
    job(None)
    names = []
    monkeypatch.setattr(multihost_utils, "sync_global_devices", names.append)
    shardlift.barrier("public")
    assert names == ["public"]


def test_without_the_service_it_times_out_too(job, monkeypatch):
    job(None)
    release = threading.Event()
    monkeypatch.setattr(multihost_utils, "sync_global_devices", lambda _: release.wait(60))
    with pytest.raises(TimeoutError, match="not all 3 processes arrived; .* This is process 1"):
        shardlift.barrier("stuck", timeout=0.01)
    release.set()


def test_without_the_service_its_errors_are_passed_on(job, monkeypatch):
    job(None)
    monkeypatch.setattr(multihost_utils, "sync_global_devices", lambda name: {}[name])
    with pytest.raises(RuntimeError, match="barrier 'bad' broke: 'bad'"):
        shardlift.barrier("bad")


def test_a_job_of_one_process_does_not_wait(monkeypatch):
    monkeypatch.setattr(_compat, "coordination", lambda: 1 / 0)
    shardlift.barrier("alone")


def test_processes_as_text():
    assert list_processes([3]) == "process 3"
    assert list_processes([0, 2]) == "processes 0, 2"
