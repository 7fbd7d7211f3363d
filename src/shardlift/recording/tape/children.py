"""Child processes of a recorded program: their calls are not recorded, but it is noted that there
were some.

A forked child leaves a mark beside the capture when JAX compiles something in it. Other programs
inherit a variable of the environment, with which JAX writes what it compiles to a folder. No JAX
here.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shlex
import shutil
import sys
from typing import Any

from shardlift._import_hook import AfterImport

DUMPS = "JAX_DUMP_IR_TO"  # read by JAX when it is imported
MOST_COMMANDS = 20
# The events of Python before it starts a program: the command, and the environment, by position.
_STARTS = {
    "subprocess.Popen": (1, 3), "os.system": (0, None), "os.exec": (1, 2),
    "os.posix_spawn": (1, 2), "os.spawn": (2, 3),
}  # fmt: skip
_PYTHON = re.compile(r"(.*/)?python[0-9.]*")


class Children:
    """The marks of child processes beside a capture, and the commands that were started."""

    def __init__(self, capture: str) -> None:
        self.process = os.getpid()
        self._prefix = f"{os.path.abspath(capture)}.child."
        self._folder = f"{os.path.abspath(capture)}.programs"
        self._commands: dict[str, None] = {}
        self._hidden: dict[str, None] = {}

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
        if not programs:
            self._commands.clear()
        return len(marks) + programs

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands that were started, if one of them used JAX: after `count`."""
        return tuple(self._commands)

    @property
    def hidden_commands(self) -> tuple[str, ...]:
        """Commands of Python without the variable by which their use of JAX would be seen."""
        return tuple(self._hidden)

    def watch(self) -> None:
        """Watch forked children, and the commands that are started, from now on."""
        os.register_at_fork(after_in_child=self._watch_fork)
        sys.addaudithook(self._note_start)

    def watch_programs(self) -> None:
        """Watch other programs from now on: JAX has been imported, and does not see it here."""
        os.environ.setdefault(DUMPS, self._folder)

    def _note_start(self, event: str, args: tuple[Any, ...]) -> None:
        if event not in _STARTS or len(self._commands) >= MOST_COMMANDS:
            return
        command, environ = _STARTS[event]
        text = _text_of(args[command])
        self._commands[text] = None
        own = None if environ is None else args[environ]
        names = {os.fsdecode(name) for name in (os.environ if own is None else own)}
        if DUMPS not in names and any(map(_PYTHON.fullmatch, text.split())):
            self._hidden[text] = None

    def _watch_fork(self) -> None:
        jax = sys.modules.get("jax")
        if jax is not None and hasattr(jax, "monitoring"):
            self._listen(jax)
        else:
            AfterImport("jax", self._listen).install()

    def _listen(self, jax: Any) -> None:
        def listener(event: str, *_: Any, **__: Any) -> None:
            if "compile" in event:
                self.note_call()

        jax.monitoring.register_event_duration_secs_listener(listener)


def _text_of(command: Any) -> str:
    """A command as one would type it.

    >>> _text_of(["python", "-c", "import jax"]), _text_of("python eval.py")
    ("python -c 'import jax'", 'python eval.py')
    """
    if isinstance(command, (str, bytes, os.PathLike)):
        return os.fsdecode(command)
    return shlex.join(os.fsdecode(word) for word in command)
