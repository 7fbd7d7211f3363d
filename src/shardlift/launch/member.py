"""One process of a job that Slurm, MPI, Kubernetes or a person started.

Each process writes its part of the record beside FILE: when the program ends,
and from time to time before, so that a process that is killed leaves what it had seen.
"""

import functools
import os
import shlex
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from shardlift._import_hook import AfterImport
from shardlift.capture.parts import part_path
from shardlift.launch.session import RunSession

# The variables for the number of this process, and for how many there are. In this order: Slurm
# starts MPI programs too, and then sets both kinds. SLURM_PROCID alone also stands in a batch
# script, which is one process.
_VARIABLES = (
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),  # srun
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI
    ("JAX_PROCESS_ID", "JAX_NUM_PROCESSES"),  # by convention, in manifests for Kubernetes
)


def place_by_scheduler(environ: Mapping[str, str]) -> tuple[int, int] | None:
    """The number of this process and of all; None for a process on its own.

    JAX knows better, once the program has called ``jax.distributed.initialize``. This is for one
    that ends before it does, or never does: its record must not replace another process's.

    >>> place_by_scheduler({"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "8"})
    (3, 8)
    >>> place_by_scheduler({"SLURM_PROCID": "0", "SLURM_NTASKS": "8"})  # a batch script
    """
    for names in _VARIABLES:
        process, count = (_number(environ.get(name, "")) for name in names)
        if process is not None and count is not None and count > 1 and process < count:
            return process, count
    return None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() else None


class Member:
    """This process, as a member of a job of many; on its own, nothing happens."""

    def __init__(self, session: RunSession) -> None:
        """To be called before the program runs."""
        self.session = session
        self.record = session.options.record
        self.place: tuple[int, int] | None = None  # once it has joined: its number, and of all
        if self.record is not None:
            place = place_by_scheduler(os.environ)
            session.path = part_path(self.record, place[0]) if place else self.record
            session.keep_writing()
        jax = sys.modules.get("jax")
        if jax is not None and hasattr(jax, "distributed"):
            self._hook(jax)
        else:
            AfterImport("jax", self._hook).install()

    def _hook(self, jax: ModuleType) -> None:
        own = jax.distributed.initialize

        @functools.wraps(own)
        def initialize(*args: Any, **kwargs: Any) -> Any:
            out = own(*args, **kwargs)
            self._join()
            return out

        jax.distributed.initialize = initialize

    def _join(self) -> None:
        from shardlift import _compat

        self.place = _compat.place_in_job() or place_by_scheduler(os.environ)
        if self.place is None or self.place[1] == 1:
            self.place = None
            return
        if self.record is not None and self.session.observer is not None:
            from shardlift.recording.process import job_name

            self.session.path = part_path(self.record, self.place[0])
            job_name()
            self.session.joined = True

    # ---- when it ends

    def end(self, status: Any) -> bool:
        """Write the record; False if there is one, and it could not be written.

        ``status`` is what the program gave to ``sys.exit``, or 1 if it raised an error.
        """
        session = self.session
        if self.place is None:
            return session.end()
        process, count = self.place
        written = session.end(quiet=process > 0 or self.record is not None)
        if status not in (0, None):
            part = f"; its part of the record is {session.path}" if self.record and written else ""
            session.print([f"process {process} of {count} failed{part}"])
        elif self.record is not None and not (process or session.options.quiet):
            session.print([f"next: shardlift report {shlex.quote(self.record)}"])
        return written
