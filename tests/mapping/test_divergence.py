"""The agreement of processes on a program, with a coordination service of our own."""

import jax
import pytest

from shardlift import _compat
from shardlift.mapping import divergence
from shardlift.mapping.divergence import DivergenceError


class Service:
    """What the other processes have stored, and what this one stores."""

    def __init__(self, answers=(), error="DEADLINE_EXCEEDED: no such key"):
        self.answers = dict(answers)  # by process
        self.error = error
        self.stored = {}

    def key_value_set(self, key, value, allow_overwrite=False):
        self.stored[key] = value

    def blocking_key_value_get(self, key, timeout_in_ms):
        assert timeout_in_ms >= 1
        process = int(key.rpartition("/")[2])
        if process not in self.answers:
            raise jax.errors.JaxRuntimeError(self.error)
        return self.answers[process]


@pytest.fixture
def job(monkeypatch):
    """Process 0 of three, with a service."""

    def start(service, seconds="5"):
        monkeypatch.setattr(jax, "process_count", lambda: 3)
        monkeypatch.setattr(jax, "process_index", lambda: 0)
        monkeypatch.setattr(_compat, "coordination", lambda: service)
        monkeypatch.setenv(divergence.TIMEOUT_VARIABLE, seconds)
        return service

    yield start
    divergence._leave()


def test_processes_that_agree_meet_somewhere_else_next_time(job):
    service = job(Service({1: "f", 2: "f"}))
    divergence.agree("f")
    divergence.agree("f")
    assert len(service.stored) == 2
    assert set(service.stored.values()) == {"f"}


SPOILED = {
    "another program": (Service({1: "g", 2: "f"}), r"  processes 0, 2: f\n  process 1: g\n"),
    "who did not arrive": (Service({2: "f"}), r"process 1: did not arrive within 0\.01 s"),
    "a broken job": (Service(error="UNAVAILABLE: reset\nmore"), r"process 1 before f: .*reset\)$"),
}


@pytest.mark.parametrize("case", SPOILED)
def test_the_message_says_who_is_not_there(job, case):
    service, message = SPOILED[case]
    job(service, seconds="0.01")
    with pytest.raises(DivergenceError, match=message) as caught:
        divergence.agree("f")
    assert (divergence.TIMEOUT_VARIABLE in str(caught.value)) == (case != "a broken job")


def test_a_failure_is_left_where_the_others_look_for_this_process(job):
    service = job(Service({1: "f", 2: "f"}))
    divergence.report_failure(ValueError("too many rows\nmore"))
    divergence.agree("f")
    (failed, text), (agreed, _) = service.stored.items()
    assert text == "failed with ValueError: too many rows"
    assert failed != agreed  # a failure ends the meeting


@pytest.mark.parametrize("seconds", ["0", "-1"])
def test_without_a_timeout_nothing_is_checked(job, seconds):
    service = job(Service(), seconds)
    divergence.agree("f")
    divergence.report_failure(ValueError("x"))
    assert service.stored == {}


def test_a_job_of_one_process_asks_nobody(monkeypatch):
    service = Service()
    monkeypatch.setattr(_compat, "coordination", lambda: service)
    divergence.agree("f")
    divergence.report_failure(ValueError("x"))
    assert service.stored == {}
