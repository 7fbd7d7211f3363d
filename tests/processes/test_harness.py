"""The harness itself: what it promises to the tests that stand on it."""

from __future__ import annotations

import pytest

from .harness import run_processes

pytestmark = pytest.mark.slow


def one_raises():
    import jax

    print("this is process", jax.process_index())
    if jax.process_index() == 1:
        raise ValueError("not today")


def test_a_failure_shows_every_log():
    with pytest.raises(AssertionError) as failed:
        run_processes(one_raises, devices=1, initialize={"shutdown_timeout_seconds": 2})
    text = str(failed.value)
    assert "this is process 0" in text
    assert "== process 1: status 1" in text
    assert "ValueError: not today" in text
