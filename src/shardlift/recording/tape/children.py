"""Child processes of a recorded program: their calls are not recorded, but they are counted.

They inherit a variable of the environment, with which JAX writes what it compiles to a folder
beside the capture; those that are given another environment are not seen. A forked child has a
folder of its own in it. No JAX here.
"""

import contextlib
import glob
import os
import shutil
import sys
from typing import Any

DUMPS = "JAX_DUMP_IR_TO"  # read by JAX when it is imported


class Children:
    """The marks of child processes beside a capture."""

    def __init__(self, capture: str) -> None:
        self.process = os.getpid()
        self._folder = f"{os.path.abspath(capture)}.programs"

    def note_call(self) -> None:
        """Leave a mark if this is a child."""
        if os.getpid() != self.process:
            # Without the folder nobody will read it.
            with contextlib.suppress(OSError):
                os.makedirs(self._own_folder(), exist_ok=True)

    def count(self) -> int:
        """The number of child processes that used JAX; their marks are removed."""
        forked = glob.glob(f"{glob.escape(self._folder)}/*/")
        # Each process counts its files from 0; those with equal names are one.
        programs = glob.glob(f"{glob.escape(self._folder)}/jax_ir0000_*")
        shutil.rmtree(self._folder, ignore_errors=True)
        return len(forked) + len(programs)

    def watch(self) -> None:
        """Watch forked children and other programs from now on."""
        os.register_at_fork(after_in_child=self._watch_fork)
        os.environ.setdefault(DUMPS, self._folder)

    def leave_out(self, jax: Any) -> None:
        """This process is no child: its JAX, which was just imported, writes nothing."""
        if os.environ.get(DUMPS) == self._folder:
            jax.config.update("jax_dump_ir_to", "")

    def _watch_fork(self) -> None:
        if os.environ.get(DUMPS) == self._folder:
            os.environ[DUMPS] = self._own_folder()
            if "jax" in sys.modules:
                sys.modules["jax"].config.update("jax_dump_ir_to", self._own_folder())

    def _own_folder(self) -> str:
        return os.path.join(self._folder, str(os.getpid()))
