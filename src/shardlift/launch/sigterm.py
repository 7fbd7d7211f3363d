"""SIGTERM in a process that has joined a job of JAX."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Sigterm"]


class Sigterm:
    """Lets a thread hear of SIGTERM, even while the main thread is inside XLA.

    ``jax.distributed.initialize`` puts a handler in C in the place of Python's, which only notes
    that the process is to be preempted (0.10.2, 0.12.0.1). It is still called.
    """

    def __init__(self) -> None:
        """Nothing is changed yet."""
        self.source, self._wakeup = socket.socketpair()  # readable when a signal has come
        self._before_fork = threading.local()
        self._note_preemption: Callable[[int], object] = int  # JAX's handler, once there is one

    def listen(self) -> None:
        """Hear of signals that Python handles; to be called in the main thread."""
        self._wakeup.setblocking(False)
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        os.register_at_fork(
            before=self._hold, after_in_parent=self._let_through, after_in_child=self._forget
        )

    def take_over(self, *, keep_handler: bool = False) -> None:
        """Let Python handle SIGTERM again, by the program's own handler or by none."""
        if threading.current_thread() is not threading.main_thread():
            return  # handlers cannot be set there
        import ctypes  # it opens a file (libffi 3.5), which other programs should not see

        replace = ctypes.CDLL(None).signal
        replace.restype, replace.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p)
        jax_handler = replace(signal.SIGTERM, None)  # None is SIG_DFL
        if jax_handler:
            self._note_preemption = ctypes.CFUNCTYPE(None, ctypes.c_int)(jax_handler)
        handler = signal.getsignal(signal.SIGTERM)
        signal.signal(signal.SIGTERM, handler if keep_handler and callable(handler) else _go_on)

    def received(self) -> bytes:
        """Wait for signals that Python handles; their numbers."""
        return self.source.recv(4096)

    def note_preemption(self) -> None:
        """What JAX's own handler does."""
        self._note_preemption(signal.SIGTERM)

    def _hold(self) -> None:
        """Until a forked process has forgotten that it shares the socket for signals."""
        self._before_fork.mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

    def _let_through(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before_fork.mask)

    def _forget(self) -> None:
        """A forked process is none of the job's: it ends by SIGTERM, and tells nobody."""
        signal.set_wakeup_fd(-1)  # the thread that forked is the main one there
        if signal.getsignal(signal.SIGTERM) is _go_on:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._let_through()


def _go_on(number: int, frame: Any) -> None:
    """Whoever listens is told."""
