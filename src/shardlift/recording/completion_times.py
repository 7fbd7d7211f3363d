"""When outputs become ready, observed from a separate thread so that the program never waits.

Devices work through their programs in order. What one call keeps them busy for is therefore the
time from when the call before it was ready, or this one was made, to when this one is ready. So
calls are looked at in pairs: the first one only tells when the devices were free.
"""

from __future__ import annotations

import atexit
import contextlib
import queue
import threading
import time
from typing import Any, NamedTuple

import jax

from shardlift.capture.histogram import Histogram

# Seconds between pairs, more of them from pair to pair: waking a thread may cost the program half
# a millisecond where the devices are threads of a busy CPU.
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.25


class _Item(NamedTuple):
    array: jax.Array
    left: float  # when the call returned
    into: Histogram | None  # None: the first of a pair


class Waiter:
    """Samples the time between the return of a call and its outputs being ready."""

    def __init__(self) -> None:
        self.lost = 0  # samples whose output was donated, or failed, before it was ready
        self._items: queue.SimpleQueue[_Item | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.next = 0.0  # when the next call is to be handed over; asked at every call
        self._first = True
        self._pairs = 0
        self._open = 0  # items handed over and not done
        self._free: float | None = None  # when the first of a pair was ready, if it was

    def hand_over(self, out: Any, left: float, into: Histogram) -> None:
        """Wait, in the other thread, until the outputs of a call are ready."""
        array = _smallest(out)
        if array is None or (self._first and self._open):
            self.next, self._first = left + FIRST_PAUSE, True
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True, name="shardlift-facts")
            self._thread.start()
            atexit.register(self.close)  # a thread must not wake while Python goes away
        self._open += 1
        self._items.put(_Item(array, left, None if self._first else into))
        if not self._first:
            self._pairs += 1
            self.next = left + min(LONGEST_PAUSE, self._pairs * FIRST_PAUSE)
        self._first = not self._first

    def _work(self) -> None:
        while (item := self._items.get()) is not None:
            into, left, free = item.into, item.left, self._free
            ready = _ready_at(item.array)
            del item  # hold nobody's output longer than needed
            if ready is None:
                self.lost += 1
            elif into is not None and free is not None:
                into.add(max(0.0, ready - max(free, left)))
            self._free = ready
            self._open -= 1

    def close(self, timeout: float = 1.0) -> None:
        """End the thread, or give up after ``timeout``: it may be in a wait that never ends."""
        if self._thread is not None and self._thread.is_alive():
            self._items.put(None)
            with contextlib.suppress(RuntimeError):
                self._thread.join(timeout)
        self._thread = None
        atexit.unregister(self.close)


def _ready_at(array: jax.Array) -> float | None:
    try:
        array.block_until_ready()
    except Exception:  # donated, or the program failed: the caller will hear of it
        return None
    return time.perf_counter()


def _smallest(out: Any) -> jax.Array | None:
    """A small output: all are ready at the same time, and this one costs least to hold."""
    arrays = [leaf for leaf in jax.tree.leaves(out)[:16] if isinstance(leaf, jax.Array)]
    return min(arrays, key=lambda leaf: leaf.size, default=None)
