"""Python child processes that never outlive the command that started them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from shardlift.launch.process_group import signal_group
from shardlift.launch.program import virtual_devices

__all__ = ["Done", "plain_environment", "run_python"]

_GRACE = 3  # seconds between SIGINT and SIGKILL


class Done(NamedTuple):
    """A process that has ended."""

    status: int
    output: str  # standard output and error, interleaved; empty if they were not captured


def run_python(
    arguments: Sequence[str],
    env: Mapping[str, str],
    *,
    cwd: Path | None = None,
    timeout: float | None = None,
    captured: bool = True,
) -> Done:
    """Run this interpreter. Raises ``subprocess.TimeoutExpired`` after ``timeout`` seconds."""
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if captured else None,
        stderr=subprocess.STDOUT if captured else None,
        start_new_session=True,  # `_no_survivors` passes Ctrl-C on to the whole group
        encoding="utf-8",
        errors="replace",
    )
    with _no_survivors(process):
        output, _ = process.communicate(timeout=timeout)
    return Done(process.returncode, output or "")


def plain_environment(devices: int | None) -> dict[str, str]:
    """The environment without settings of JAX; with virtual CPU devices if a number is given."""
    current = os.environ.items()
    env = {k: v for k, v in current if not k.startswith("JAX_") and k != "XLA_FLAGS"}
    if devices is not None:
        virtual_devices(devices, env)
    return env | {"PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1"}


@contextlib.contextmanager
def _no_survivors(process: subprocess.Popen[str]) -> Iterator[None]:
    """End the process and all that it started if an exception leaves the block."""
    try:
        yield
    except BaseException:
        for number in (signal.SIGINT, signal.SIGKILL):
            signal_group(process, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=_GRACE)
        raise
