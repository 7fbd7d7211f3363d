"""One process of a job, and its launcher: what it tells, and when it ends.

All of it happens in a thread of its own. The main thread may be inside XLA, which waits without
Python's lock and lets no Python signal handler run.
"""

import faulthandler
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

# Makes a process write its stacks although a thread holds Python's lock. One that programs do not
# use: Slurm and others send SIGUSR1 and SIGUSR2.
DUMP_SIGNAL: int = (
    signal.SIGRTMAX - 1 if sys.platform == "linux" else getattr(signal, "SIGINFO", signal.SIGUSR2)
)


class Control:
    """This process' end of the socket to the launcher."""

    def __init__(self, link: int, dump: int) -> None:
        """``link`` and ``dump`` are the descriptors of sockets, the second one for stacks."""
        self._link = socket.socket(fileno=link)
        self._link.set_inheritable(False)
        os.set_inheritable(dump, False)
        self._dump = dump
        self._writing = threading.Lock()
        self.write: Callable[[], bool] = lambda: True  # the record, before this process is ended

    def start(self) -> None:
        """Listen from now on; to be called in the main thread."""
        faulthandler.register(DUMP_SIGNAL, file=self._dump, all_threads=True)
        threading.Thread(target=self._serve, daemon=True, name="shardlift-control").start()
        self.tell(ready=True)

    def tell(self, **what: Any) -> None:
        """Tell the launcher something."""
        line = json.dumps({"at": time.time(), **what}).encode() + b"\n"
        with self._writing, suppress(OSError):  # without a launcher the process ends
            self._link.sendall(line)

    def tell_written(self, write: Callable[[], bool]) -> None:
        """Write the record; the launcher waits for that, and is told if it fails."""
        self.tell(writing=True)
        self.tell(writing=False, unwritten=not write())

    def _serve(self) -> None:
        try:
            while self._link.recv(1):  # the launcher is about to end this process
                self.tell_written(self.write)
            self.write()
        finally:  # the launcher is gone
            os.killpg(os.getpgid(0), signal.SIGKILL)
