"""Do all processes run the same program? Asked when a program is made, not when it runs.

In a job of many processes a call that differs on one of them hangs in a collective, or worse.
The first time a site is compiled for a signature, each process leaves a description of what it
is about to run with the coordination service and reads the others'. Calls that are served from
the cache ask nothing, so a running program pays nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time

import jax

from shardlift import _compat
from shardlift.arrays.barriers import listed

TIMEOUT_VARIABLE = "SHARDLIFT_GUARD_TIMEOUT"  # seconds; 0 turns the guard off
DEFAULT_TIMEOUT = 300.0

_rooms = itertools.count()
_lock = threading.Lock()
_room: int | None = None  # where this process is expected next, not yet left


class DivergenceError(RuntimeError):
    """The processes of a job are not about to run the same program."""


def agree(what: str) -> None:
    """Wait until every process says that it is about to run ``what``, or raise."""
    client = _compat.coordination()
    seconds = timeout()
    if client is None or seconds <= 0 or jax.process_count() == 1:
        return
    room = _enter()
    client.key_value_set(f"{room}/{jax.process_index()}", what, allow_overwrite=True)
    said = {jax.process_index(): what}
    deadline = time.monotonic() + seconds
    for process in range(jax.process_count()):
        if process not in said:
            left = max(1, int(1000 * (deadline - time.monotonic())))
            try:
                said[process] = client.blocking_key_value_get(f"{room}/{process}", left)
            except jax.errors.JaxRuntimeError as error:
                if "DEADLINE_EXCEEDED" not in str(error):
                    raise DivergenceError(_broken(process, what, error)) from error
    _leave()
    if len(said) < jax.process_count() or len(set(said.values())) > 1:
        raise DivergenceError(_differ(said, seconds))


def tell_failure(error: BaseException) -> None:
    """Let processes that wait for this one know that it will not come, and why."""
    client = _compat.coordination()
    if client is None or timeout() <= 0 or jax.process_count() == 1:
        return
    first_line = str(error).partition("\n")[0]
    said = f"failed with {type(error).__name__}: {first_line}"
    with contextlib.suppress(jax.errors.JaxRuntimeError):  # the service may be gone
        client.key_value_set(f"{_enter()}/{jax.process_index()}", said, allow_overwrite=True)
    _leave()  # where all failed alike, all go on to the next meeting


def timeout() -> float:
    """How long to wait for the others, in seconds."""
    return float(os.environ.get(TIMEOUT_VARIABLE, DEFAULT_TIMEOUT))


def _enter() -> str:
    """The meeting that this process comes to next; the same one until it has been held."""
    global _room
    with _lock:
        if _room is None:
            _room = next(_rooms)
        return f"shardlift/guard/{_room}"


def _leave() -> None:
    global _room
    with _lock:
        _room = None


def _broken(process: int, what: str, error: BaseException) -> str:
    first_line = str(error).partition("\n")[0]
    return f"waiting for process {process} before {what}: the job broke ({first_line})"


def _differ(said: dict[int, str], seconds: float) -> str:
    count = jax.process_count()
    missing = sorted(set(range(count)) - set(said))
    groups: dict[str, list[int]] = {}
    for process, what in sorted(said.items()):
        groups.setdefault(what, []).append(process)
    lines = [f"  {listed(who)}: {what}" for what, who in groups.items()]
    if missing:
        lines.append(f"  {listed(missing)}: did not come within {seconds:g} s")
    return (
        f"the {count} processes of this job are not about to run the same pmapped program, which "
        "would hang in its first collective:\n" + "\n".join(lines) + "\nEvery process must call "
        "the same pmapped functions in the same order, with arguments of the same shapes and "
        "dtypes and one row for each device that takes part. Look first at the process that is "
        f"alone. (Time to wait: {TIMEOUT_VARIABLE}.)"
    )
