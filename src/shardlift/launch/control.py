"""One process of a job, and its launcher: what it tells, what it is asked, when it ends.

All of it happens in a thread of its own. The main thread may be inside XLA, which waits without
Python's lock and lets no Python signal handler run.
"""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from typing import Any

__all__ = ["DUMP_SIGNAL", "Control"]

# Makes a process write its stacks although a thread holds Python's lock. One that programs do not
# use: Slurm and others send SIGUSR1 and SIGUSR2.
DUMP_SIGNAL: int = (
    signal.SIGRTMAX - 1 if sys.platform == "linux" else getattr(signal, "SIGINFO", signal.SIGUSR2)
)


class Control:
    """This process' end of the socket to the launcher."""

    def __init__(self, link: int, dump: int) -> None:
        """``link`` and ``dump`` are the descriptors of sockets, the second one for stacks."""
        self.finished = False  # has the program come to its end?
        self._link = socket.socket(fileno=link)
        self._link.set_inheritable(False)
        os.set_inheritable(dump, False)
        self._dump = dump
        self._writing = threading.Lock()
        self._signals, self._wakeup = socket.socketpair()
        self._before_fork = threading.local()
        self._note_preemption: Callable[[int], object] = int  # JAX's handler, once there is one

    def start(self) -> None:
        """Answer from now on; to be called in the main thread."""
        faulthandler.register(DUMP_SIGNAL, file=self._dump, all_threads=True)
        self._wakeup.setblocking(False)
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        os.register_at_fork(
            before=self._hold_sigterm,
            after_in_parent=self._let_sigterm_through,
            after_in_child=self._forget,
        )
        threading.Thread(target=self._serve, daemon=True, name="shardlift-control").start()
        self.tell(ready=True)

    def tell(self, **what: Any) -> None:
        """Tell the launcher something."""
        line = json.dumps({"at": time.time(), **what}).encode() + b"\n"
        with self._writing:
            self._link.sendall(line)

    def hear_sigterm(self) -> None:
        """Notice SIGTERM although JAX has put a handler of its own in the place of Python's.

        JAX only notes that the process is to be preempted (0.10.2, 0.12.0.1), and a process that
        waits for others would never end. Its handler is still called.
        """
        if threading.current_thread() is not threading.main_thread():
            return  # jax was imported elsewhere, where handlers cannot be set
        replace = ctypes.CDLL(None).signal
        replace.restype, replace.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p)
        jax_handler = replace(signal.SIGTERM, None)  # None is SIG_DFL
        if jax_handler:
            self._note_preemption = ctypes.CFUNCTYPE(None, ctypes.c_int)(jax_handler)
        handler = signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, handler if callable(handler) else _go_on)

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._link, selectors.EVENT_READ, self._answer)
            selector.register(self._signals, selectors.EVENT_READ, self._pass_on)
            while True:
                for key, _ in selector.select():
                    key.data()

    def _answer(self) -> None:
        if not self._link.recv(1):  # the launcher is gone, and so are we
            os.killpg(os.getpgid(0), signal.SIGKILL)
        from shardlift.launch.snapshot import take_snapshot  # only when it is needed

        with suppress(Exception):  # without an answer the launcher asks by a signal
            self.tell(answer=asdict(take_snapshot(self.finished)))

    def _pass_on(self) -> None:
        if signal.SIGTERM in self._signals.recv(4096):
            self.tell(terminated=True)
            self._note_preemption(signal.SIGTERM)

    def _hold_sigterm(self) -> None:
        """Until a forked process has forgotten that it shares the socket for signals."""
        self._before_fork.mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

    def _let_sigterm_through(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before_fork.mask)

    def _forget(self) -> None:
        """A forked process is none of the job's: it ends by SIGTERM, and tells nobody."""
        signal.set_wakeup_fd(-1)  # the thread that forked is the main one there
        if signal.getsignal(signal.SIGTERM) is _go_on:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._let_sigterm_through()


def _go_on(number: int, frame: Any) -> None:
    """The launcher is told, and ends the job."""
