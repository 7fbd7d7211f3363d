"""What each process of a job runs: ``python -m shardlift.launch JSON``.

JAX reads the coordinator's address from the environment, but not how many processes there are
nor which one this is (0.10.2 and 0.12.0), unless it finds Slurm or MPI. So the process joins the
job by a call, as soon as the program has imported JAX and before it can use a device; and the
program's own ``jax.distributed.initialize()`` finds that done.
"""

import faulthandler
import functools
import io
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from shardlift._import_hook import AfterImport
from shardlift.launch.program import report_uncaught
from shardlift.launch.session import RunSession, from_json

# Makes a process write its stacks although a thread holds Python's lock. One that programs do not
# use: Slurm and others send SIGUSR1 and SIGUSR2.
DUMP_SIGNAL: int = (
    signal.SIGRTMAX - 1 if sys.platform == "linux" else getattr(signal, "SIGINFO", signal.SIGUSR2)
)


class Control:
    """This process' end of the socket to the launcher: what it tells, and when it ends.

    All of it happens in a thread of its own. The main thread may be inside XLA, which waits without
    Python's lock and lets no Python signal handler run.
    """

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


@dataclass(frozen=True)
class Place:
    """This process' place in the job."""

    process: int
    processes: int
    coordinator: str
    start_timeout: int
    link: int  # file descriptor of a socket to the launcher
    dump: int  # and of another one, for stacks


def main(argument: str) -> None:
    """Run the program as one process of a job."""
    program, options, told = from_json(argument)
    place = Place(**told["place"])
    control = Control(place.link, place.dump)
    control.start()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # a line when it is printed, and whole
    AfterImport("jax", lambda jax: _join(jax, place, control)).install()
    session = RunSession(options.of_process(place.process), program)
    session.joined = True
    session.keep_writing()
    control.write = functools.partial(session.write, quiet=True, patience=1)
    failed = True  # then the launcher has more important things to say
    try:
        program.run()
        failed = False
    except SystemExit as error:
        if error.code not in (None, 0):
            control.tell(failed=error.code if isinstance(error.code, int) else 1, traceback="")
        raise
    except BaseException as error:
        session.error = error
        status, text = report_uncaught(error)
        control.tell(failed=status, traceback=text, advice=session.advice())
        sys.exit(status)
    finally:
        control.tell_written(functools.partial(session.end, quiet=failed))


def _join(jax: ModuleType, place: Place, control: Control) -> None:
    from shardlift import _compat

    own, mine = jax.distributed.initialize, (place.processes, place.process)

    def initialize(
        coordinator_address: str | None = None,  # noqa: ARG001
        num_processes: int | None = None,
        process_id: int | None = None,
        *_: Any,
        **__: Any,
    ) -> None:
        """Join the job that ``shardlift run`` started; nothing to do when that is done."""
        for name, asked, given in zip(
            ("num_processes", "process_id"), (num_processes, process_id), mine, strict=True
        ):
            if asked is not None and asked != given:
                raise ValueError(
                    f"jax.distributed.initialize was called with {name}={asked}, but shardlift "
                    f"run started this process with {name}={given}: leave the argument out."
                )
        if not jax.distributed.is_initialized():
            own(
                place.coordinator,
                *mine,
                cluster_detection_method="deactivate",
                initialization_timeout=place.start_timeout,
                coordinator_bind_address=place.coordinator,  # not on every network interface
            )

    _compat.keep_gloo_on_loopback()
    control.tell(stage="joining")
    initialize()
    control.tell(stage="joined")
    jax.distributed.initialize = initialize
