"""Child processes of a recorded program: their calls are not recorded, but they are counted.

A forked child leaves a mark beside the capture when JAX compiles something in it. Other programs
inherit a variable of the environment, with which JAX writes what it compiles to a folder; those
that are given another environment are not seen. No JAX here.
"""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import sys
from typing import Any

from shardlift._import_hook import AfterImport

DUMPS = "JAX_DUMP_IR_TO"  # read by JAX when it is imported


class Children:
    """The marks of child processes beside a capture."""

    def __init__(self, capture: str) -> None:
        self.process = os.getpid()
        self._prefix = f"{os.path.abspath(capture)}.child."
        self._folder = f"{os.path.abspath(capture)}.programs"

    def note_call(self) -> None:
        """Leave a mark if this is a child."""
        if os.getpid() != self.process:
            # Without the folder nobody will read it.
            with contextlib.suppress(OSError), open(f"{self._prefix}{os.getpid()}", "wb"):
                pass

    def count(self) -> int:
        """The number of child processes that used JAX; their marks are removed."""
        marks = glob.glob(f"{glob.escape(self._prefix)}*")
        for mark in marks:
            os.remove(mark)
        # Each process counts its files from 0; those with equal names are one.
        programs = len(glob.glob(f"{glob.escape(self._folder)}/jax_ir0000_*"))
        shutil.rmtree(self._folder, ignore_errors=True)
        return len(marks) + programs

    def watch(self) -> None:
        """Watch forked children and other programs from now on."""
        os.register_at_fork(after_in_child=self._watch_fork)
        os.environ.setdefault(DUMPS, self._folder)

    def leave_out(self, jax: Any) -> None:
        """This process is no child: its JAX, which was just imported, writes nothing."""
        if os.environ.get(DUMPS) == self._folder:
            jax.config.update("jax_dump_ir_to", "")

    def _watch_fork(self) -> None:
        jax = sys.modules.get("jax")
        if jax is not None and hasattr(jax, "monitoring"):
            self._listen(jax)
        else:
            AfterImport("jax", self._listen).install()

    def _listen(self, jax: Any) -> None:
        self.leave_out(jax)  # the mark is enough

        def listener(event: str, *_: Any, **__: Any) -> None:
            if "compile" in event:
                self.note_call()

        jax.monitoring.register_event_duration_secs_listener(listener)
