"""Child processes of a recorded program: their calls are not recorded, but it is noted that there
were some.

A forked child has the hooks of its parent. Any other child of ``multiprocessing`` watches what JAX
compiles in it. Each leaves an empty file beside the capture. No JAX here.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import sys
from collections.abc import Callable
from typing import Any

from shardlift._import_hook import AfterImport


class Children:
    """The marks of child processes beside a capture."""

    def __init__(self, capture: str) -> None:
        self.process = os.getpid()
        self._prefix = f"{os.path.abspath(capture)}.child."

    def note_call(self) -> None:
        """Leave a mark if this is a child."""
        if os.getpid() != self.process:
            leave_mark(self._prefix)

    def count(self) -> int:
        """The number of child processes that used JAX; their marks are removed."""
        marks = glob.glob(f"{glob.escape(self._prefix)}*")
        for mark in marks:
            os.remove(mark)
        return len(marks)

    def watch(self) -> None:
        """Watch the processes that ``multiprocessing`` starts from now on."""
        from multiprocessing import process  # not at the top: few programs need it

        stock: Any = process.BaseProcess
        start, prefix = stock.start, self._prefix

        @functools.wraps(start)
        def watched_start(child: Any) -> None:
            target = getattr(child, "_target", None)
            if target is not None:  # else its class has a `run` of its own
                child._target = WatchedTarget(target, prefix)
            start(child)

        stock.start = watched_start


class WatchedTarget:
    """The target of a child process, which leaves a mark if JAX compiles something in it."""

    def __init__(self, target: Callable[..., Any], prefix: str) -> None:
        self.target, self.prefix = target, prefix

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Watch, and run."""
        jax = sys.modules.get("jax")
        if jax is not None and hasattr(jax, "monitoring"):
            self._listen(jax)
        else:
            AfterImport("jax", self._listen).install()
        return self.target(*args, **kwargs)

    def _listen(self, jax: Any) -> None:
        def listener(event: str, *_: Any, **__: Any) -> None:
            if "compile" in event:
                leave_mark(self.prefix)

        jax.monitoring.register_event_duration_secs_listener(listener)


def leave_mark(prefix: str) -> None:
    """Leave the mark of this process, unless the folder is gone: then nobody will read it."""
    with contextlib.suppress(OSError), open(f"{prefix}{os.getpid()}", "wb"):
        pass
