"""The barrier in a job of many processes, with a coordination service of our own."""

import jax
import pytest
from jax.experimental import multihost_utils

import shardlift
from shardlift import _compat


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


@pytest.mark.parametrize(
    ("service", "error", "message"),
    [
        (Service((0, 1), "DEADLINE_EXCEEDED"), TimeoutError, r"process 2 of 3 did not arrive"),
        (Service((0, 1, 2), "DEADLINE_EXCEEDED"), TimeoutError, r"process 1 of 3 did not arrive"),
        (Service(error="UNAVAILABLE: peer is gone\nmore"), RuntimeError,
         "barrier 'missing' broke: UNAVAILABLE: peer is gone$"),
    ],
)  # fmt: skip
def test_what_a_barrier_says_that_was_not_passed(job, service, error, message):
    job(service)
    with pytest.raises(error, match=message):
        shardlift.barrier("missing", timeout=1)


def test_without_the_service_the_public_barrier_is_used(job, monkeypatch):
    job(None)
    names = []
    monkeypatch.setattr(multihost_utils, "sync_global_devices", names.append)
    shardlift.barrier("public")
    assert names == ["public"]


def test_a_job_of_one_process_does_not_wait(monkeypatch):
    monkeypatch.setattr(_compat, "coordination", lambda: 1 / 0)
    shardlift.barrier("alone")
