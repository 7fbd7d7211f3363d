"""A check that all processes run the same program, made when a program is traced.

In a job of many processes a call that differs on one of them hangs in a collective, or worse.
The first time a site is compiled for a signature, each process leaves a description of the
program with the coordination service and reads the other processes' descriptions. Calls that are
served from the cache check nothing, so a running program pays nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from typing import Any

import jax

from shardlift import _compat
from shardlift.arrays.barriers import list_processes

TIMEOUT_VARIABLE = "SHARDLIFT_GUARD_TIMEOUT"  # seconds; 0 turns the check off
DEFAULT_TIMEOUT = 300.0

_meetings = itertools.count()
_lock = threading.Lock()
_meeting: int | None = None  # the one that this process has entered and not left


class DivergenceError(RuntimeError):
    """The processes of a job are not about to run the same program."""


def agree(what: str) -> None:
    """Wait until every process is about to run ``what``, or raise `DivergenceError`."""
    if service() is None:
        return
    descriptions = exchange(_enter(), what)
    _leave()
    if len(descriptions) < jax.process_count() or len(set(descriptions.values())) > 1:
        raise DivergenceError(_difference_message(descriptions))


def report_failure(error: BaseException) -> None:
    """Tell processes that wait for this one that it failed, and why."""
    client = service()
    if client is None:
        return
    first_line = str(error).partition("\n")[0]
    failure = f"failed with {type(error).__name__}: {first_line}"
    with contextlib.suppress(jax.errors.JaxRuntimeError):  # the service may be gone
        client.key_value_set(f"{_enter()}/{jax.process_index()}", failure, allow_overwrite=True)
    _leave()  # if all processes failed alike, all go on to the next meeting


def service() -> Any:
    """The client of the coordination service; None for one process, or if the check is off."""
    client = _compat.coordination()
    return None if client is None or timeout() <= 0 or jax.process_count() == 1 else client


def exchange(meeting: str, text: str) -> dict[int, str]:
    """The text that each process gives to this meeting; of those that arrive in time."""
    client, deadline = service(), time.monotonic() + timeout()
    client.key_value_set(f"{meeting}/{jax.process_index()}", text, allow_overwrite=True)
    texts = {jax.process_index(): text}
    for process in range(jax.process_count()):
        left = max(1, int(1000 * (deadline - time.monotonic())))
        try:
            if process not in texts:
                texts[process] = client.blocking_key_value_get(f"{meeting}/{process}", left)
        except jax.errors.JaxRuntimeError as error:
            if "DEADLINE_EXCEEDED" not in str(error):
                first_line = str(error).partition("\n")[0]
                raise DivergenceError(
                    f"waiting for process {process} before {text}: the job broke ({first_line})"
                ) from error
    return texts


def timeout() -> float:
    """The seconds to wait for the other processes."""
    return float(os.environ.get(TIMEOUT_VARIABLE, DEFAULT_TIMEOUT))


def _enter() -> str:
    """The key of the next meeting; it stays the same until the meeting is left."""
    global _meeting
    with _lock:
        if _meeting is None:
            _meeting = next(_meetings)
        return f"shardlift/guard/{_meeting}"


def _leave() -> None:
    global _meeting
    with _lock:
        _meeting = None


def _difference_message(descriptions: dict[int, str]) -> str:
    count = jax.process_count()
    missing = sorted(set(range(count)) - set(descriptions))
    groups: dict[str, list[int]] = {}
    for process, what in sorted(descriptions.items()):
        groups.setdefault(what, []).append(process)
    lines = [f"  {list_processes(who)}: {what}" for what, who in groups.items()]
    if missing:
        lines.append(f"  {list_processes(missing)}: did not arrive within {timeout():g} s")
    return (
        f"the {count} processes of this job are not about to run the same pmapped program, which "
        "would hang in its first collective:\n" + "\n".join(lines) + "\nEvery process must call "
        "the same pmapped functions in the same order, with arguments of the same shapes and "
        "dtypes and one row for each device that takes part. Look first at the process that is "
        f"alone. (Time to wait: {TIMEOUT_VARIABLE}.)"
    )
