"""The stacks of a process, as ``faulthandler`` writes them."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterable
from pathlib import PurePath
from typing import NamedTuple

_HERE = str(PurePath(__file__).parents[1]) + "/"
_STANDARD = sysconfig.get_paths()["stdlib"] + "/"
_INSTALLED = re.compile(r".*/(?:site|dist)-packages/")
_THREAD = re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+")
_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')


class StackFrame(NamedTuple):
    """One frame of a stack."""

    file: str
    line: int
    function: str
    own: bool = True  # is it of the user's program, not of a library?


class ThreadStack(NamedTuple):
    """One thread, innermost frame first."""

    frames: tuple[StackFrame, ...]

    @property
    def own(self) -> tuple[StackFrame, ...]:
        """The frames of the user's program."""
        return tuple(frame for frame in self.frames if frame.own)

    @property
    def inside(self) -> StackFrame | None:
        """The frame of a library that the program waits in, if there is one."""
        return None if not self.frames or self.frames[0].own else self.frames[0]


def parse_dump(lines: Iterable[str], package: str = "") -> tuple[ThreadStack, ...]:
    """Read what ``faulthandler`` wrote: newer threads come first, the main one is the last.

    ``package`` is the program's own, which may be an installed one.
    """
    threads: list[list[StackFrame]] = []
    for line in lines:
        if _THREAD.match(line):
            threads.append([])
        elif threads and (match := _FRAME.match(line)):
            file = match["file"]
            frame = StackFrame(file, int(match["line"]), match["function"], is_own(file, package))
            threads[-1].append(frame)
    return tuple(ThreadStack(tuple(frames)) for frames in threads)


def is_own(file: str, package: str = "") -> bool:
    """Whether a file is of the user's program, neither of Python nor of a library.

    >>> is_own("/home/me/train.py"), is_own("<frozen runpy>")
    (True, False)
    >>> installed = "/venv/lib/python3.11/site-packages/mine/train.py"
    >>> is_own(installed), is_own(installed, package="mine")
    (False, True)
    """
    if match := _INSTALLED.match(file):
        return bool(package) and file[match.end() :].startswith((f"{package}/", f"{package}.py"))
    return not file.startswith(("<frozen", _STANDARD, _HERE))
