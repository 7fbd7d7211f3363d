"""The stack of a process, as ``faulthandler`` writes it."""

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


def parse_dump(lines: Iterable[str], package: str = "") -> tuple[StackFrame, ...] | None:
    """The frames of the user's program in the main thread, innermost first; None: no answer.

    ``faulthandler`` writes newer threads first, and the main one last. ``package`` is the
    program's own, which may be an installed one.
    """
    frames: list[StackFrame] | None = None
    for line in lines:
        if _THREAD.match(line):
            frames = []
        elif frames is not None and (match := _FRAME.match(line)):
            frames.append(StackFrame(match["file"], int(match["line"]), match["function"]))
    return None if frames is None else tuple(f for f in frames if is_own(f.file, package))


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
