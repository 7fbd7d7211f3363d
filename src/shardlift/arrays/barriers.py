"""A barrier for all processes that names those that did not arrive."""

from __future__ import annotations

from collections import Counter

import jax

from shardlift import _compat

# How often each barrier was used: a name can be used again, in a loop for example.
_turns: Counter[str] = Counter()


def barrier(name: str, timeout: float = 300.0) -> None:
    """Wait until every process of the job has called ``barrier(name)``.

    Goes through the coordination service: no device is used, so the processes may be in the
    middle of anything. In a job of one process it returns at once.

    Raises:
        TimeoutError: after ``timeout`` seconds, with the processes that did not arrive; also in
            a process that arrives after the others gave up.
        RuntimeError: the job broke while waiting, because a process died for example.

    >>> from shardlift import barrier
    >>> barrier("data is on disk", timeout=60)
    """
    if jax.process_count() == 1:
        return
    client = _compat.coordination()
    if client is None:  # the public way: a collective over all devices, without a timeout
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices(name)
        return
    turn = _turns[name]
    _turns[name] += 1
    key = f"shardlift/barrier/{name}/{turn}"
    client.key_value_set(f"{key}/{jax.process_index()}", "here", allow_overwrite=True)
    try:
        client.wait_at_barrier(key, int(1000 * timeout))
    except jax.errors.JaxRuntimeError as error:
        if "DEADLINE_EXCEEDED" not in str(error):
            first_line = str(error).partition("\n")[0]
            raise RuntimeError(f"barrier {name!r} broke: {first_line}") from error
        arrived = {int(path.rpartition("/")[2]) for path, _ in client.key_value_dir_get(key)}
        # A process that arrives when the others have given up is itself the late one.
        late = sorted(set(range(jax.process_count())) - arrived) or [jax.process_index()]
        raise TimeoutError(
            f"barrier {name!r}: after {timeout} s, {list_processes(late)} of {jax.process_count()} "
            f"did not arrive in time. Look at the log of process {late[0]} first: it failed, is "
            "slower, or takes another path through the program."
        ) from None


def list_processes(processes: list[int]) -> str:
    """Processes as text, for a message."""
    noun = "process" if len(processes) == 1 else "processes"
    return f"{noun} {', '.join(map(str, processes))}"
