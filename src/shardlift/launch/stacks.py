"""Stacks of the threads of a process, as records that travel."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

__all__ = ["Answer", "Frame", "Mapped", "Stack", "library_of", "parse_dump"]

_HERE = str(PurePath(__file__).parents[1]) + "/"
_STANDARD = sysconfig.get_paths()["stdlib"] + "/"
_INSTALLED = re.compile(r".*/(?:site|dist)-packages/")


@dataclass(frozen=True)
class Mapped:
    """A function that runs on all devices: a pmap, or a jit."""

    name: str  # what the program calls it by
    kind: str  # "pmap" or "jit"
    function: str  # what is mapped
    file: str = ""  # where that is defined
    line: int = 0


@dataclass(frozen=True)
class Frame:
    """One frame of a stack."""

    file: str
    line: int
    function: str
    module: str = ""
    library: str = ""  # the package that it belongs to; empty for the user's program
    expression: str = ""  # what is being evaluated: "float(loss)"
    callee: str = ""  # what that calls: "builtins.float"
    calls: Mapped | None = None  # and if that is such a function
    near: tuple[Mapped, ...] = ()  # such functions that the frame's code uses


@dataclass(frozen=True)
class Stack:
    """One thread, innermost frame first."""

    thread: str
    main: bool
    frames: tuple[Frame, ...]

    @property
    def own(self) -> tuple[Frame, ...]:
        """The frames of the user's program."""
        return tuple(frame for frame in self.frames if not frame.library)

    @property
    def inside(self) -> tuple[Frame, ...]:
        """The frames of libraries that the innermost of the user's is in, then that one."""
        first = next((k for k, frame in enumerate(self.frames) if not frame.library), None)
        return self.frames if first is None else self.frames[: first + 1]


@dataclass(frozen=True)
class Answer:
    """What a process says when it is asked what it is doing."""

    stacks: tuple[Stack, ...]
    finished: bool = False  # it has come to the end of the program

    @property
    def main(self) -> Stack | None:
        """The main thread."""
        return next((stack for stack in self.stacks if stack.main), None)

    @staticmethod
    def from_json(told: dict[str, Any]) -> Answer:
        """The reverse of ``dataclasses.asdict``."""
        return Answer(tuple(map(_stack, told["stacks"])), told["finished"])


def _stack(told: dict[str, Any]) -> Stack:
    return Stack(told["thread"], told["main"], tuple(map(_frame, told["frames"])))


def _frame(told: dict[str, Any]) -> Frame:
    calls = Mapped(**told["calls"]) if told["calls"] else None
    near = tuple(Mapped(**mapped) for mapped in told["near"])
    return Frame(**{**told, "calls": calls, "near": near})


def library_of(file: str, module: str, own: str = "") -> str:
    """The package that a frame belongs to; empty for the user's program.

    ``own`` is the package of the program, which may be an installed one.

    >>> library_of("/home/me/train.py", "__main__")
    ''
    >>> library_of("/venv/lib/python3.11/site-packages/jax/_src/array.py", "jax._src.array")
    'jax'
    >>> library_of("/venv/lib/python3.11/site-packages/mine/train.py", "mine.train", own="mine")
    ''
    """
    package = module.partition(".")[0]
    if file.startswith(_HERE):
        return "shardlift"
    if file.startswith(("<frozen", _STANDARD)) or _INSTALLED.match(file):
        return "" if own and package == own else package or "python"
    return ""


def module_of(file: str) -> str:
    """The module of a file of a library, by its path.

    >>> module_of("/venv/lib/python3.11/site-packages/jax/_src/array.py")
    'jax._src.array'
    """
    path = file.removeprefix(_HERE.removesuffix("shardlift/")).removeprefix(_STANDARD)
    path = _INSTALLED.sub("", path).removesuffix(".py").removesuffix("/__init__")
    return "" if path.startswith("/") else path.replace("/", ".")


_DUMP_THREAD = re.compile(r"(?:Current thread|Thread) (0x[0-9a-f]+)")
_DUMP_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')


def parse_dump(lines: Iterable[str]) -> Answer:
    """What ``faulthandler`` wrote: newer threads before older ones, so the main one is the last."""
    threads: list[tuple[str, list[Frame]]] = []
    for line in lines:
        if header := _DUMP_THREAD.match(line):
            threads.append((header[1], []))
        elif threads and (match := _DUMP_FRAME.match(line)):
            threads[-1][1].append(_parsed(match))
    stacks = [Stack(name, False, without_runner(frames)) for name, frames in threads]
    if stacks:
        stacks[-1] = replace(stacks[-1], thread="MainThread", main=True)
    return Answer(tuple(stacks))


def _parsed(match: re.Match[str]) -> Frame:
    file, module = match["file"], module_of(match["file"])
    library = library_of(file, module)
    return Frame(file, int(match["line"]), match["function"], module, library)


def without_runner(frames: Sequence[Frame]) -> tuple[Frame, ...]:
    """Without the outermost frames, those that run the program or a thread."""
    # What is around the program may be anything: click, the script of a console command.
    runner = next((k for k, frame in enumerate(frames) if _is_runner(frame)), None)
    kept = list(frames if runner is None else frames[:runner])
    while kept and _runs_program(kept[-1]):
        kept.pop()
    return tuple(kept)


def _is_runner(frame: Frame) -> bool:
    return frame.module == "shardlift.launch.program" and frame.library == "shardlift"


def _runs_program(frame: Frame) -> bool:
    if frame.module == "threading":
        return frame.function.rpartition(".")[2] in ("_bootstrap", "_bootstrap_inner", "run")
    return frame.library == "shardlift" or frame.module == "runpy"
