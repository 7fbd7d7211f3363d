"""The stack of a process, as ``faulthandler`` writes it."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from shardlift._own_files import is_own

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
