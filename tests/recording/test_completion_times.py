"""Waiting for outputs from another thread."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np

from shardlift.capture.histogram import Histogram
from shardlift.recording.completion_times import Waiter


def settle(waiter: Waiter) -> None:
    deadline = time.monotonic() + 20
    while waiter._open and time.monotonic() < deadline:
        time.sleep(0.001)
    assert not waiter._open


def hand_over(waiter: Waiter, out, into: Histogram) -> None:
    settle(waiter)
    waiter.hand_over(out, time.perf_counter(), into)


def test_the_second_of_a_pair_is_timed():
    waiter, into = Waiter(), Histogram()
    for _ in range(3):
        for _ in range(2):
            hand_over(waiter, {"a": jnp.ones(3), "b": jnp.ones(())}, into)
    settle(waiter)
    waiter.close()
    assert into.count == 3
    assert waiter.lost == 0
    assert waiter.next > time.perf_counter() - 10


def test_outputs_that_are_gone_are_counted_as_lost():
    waiter, into = Waiter(), Histogram()
    for _ in range(2):
        gone = jnp.ones(3) + 1
        gone.delete()
        hand_over(waiter, gone, into)
    settle(waiter)
    waiter.close()
    assert (into.count, waiter.lost) == (0, 2)


def test_nothing_to_wait_for():
    waiter = Waiter()
    waiter.hand_over({"a": np.ones(3)}, time.perf_counter(), Histogram())
    assert waiter._thread is None
    waiter.close()


def test_outputs_may_be_donated_meanwhile():
    """A race on purpose: what is waited for is given away at once."""
    step = jax.jit(lambda x: x @ x / 300, donate_argnums=0)
    waiter, into, x = Waiter(), Histogram(), jnp.ones((300, 300))
    for _ in range(200):
        x = step(x)
        waiter.hand_over(x, time.perf_counter(), into)
    assert np.isfinite(np.asarray(x)).all()
    settle(waiter)
    waiter.close()
    assert into.count + waiter.lost > 0
