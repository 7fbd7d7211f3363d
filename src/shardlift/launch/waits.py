"""What a thread waits for, worked out from its stack."""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from shardlift.launch.stacks import Answer, Frame, Stack

__all__ = ["Wait", "find_wait"]


class Wait(Enum):
    """What a process waits for."""

    CALL = auto()  # in a call of a pmapped or jitted function
    VALUE = auto()  # for the value of an array
    JAX = auto()  # somewhere else in JAX
    AGREEMENT = auto()  # for the others to compile the same pmap
    BARRIER = auto()  # for the others, by a barrier
    START = auto()  # for the others, in jax.distributed.initialize
    END = auto()  # for the others, at the end of the program
    SLEEP = auto()
    INPUT = auto()
    SUBPROCESS = auto()
    QUEUE = auto()
    FILE_LOCK = auto()
    LOCK = auto()
    THREAD = auto()
    EVENTS = auto()  # an event loop with nothing to do
    NETWORK = auto()
    FILE = auto()
    UNKNOWN = auto()
    NO_ANSWER = auto()
    GONE = auto()  # the process has ended
    FAILED = auto()  # the program ended with an error; the process waits for the others

    @property
    def is_for_others(self) -> bool:
        """Whether it is another process that has to do something."""
        return self in _FOR_OTHERS


_FOR_OTHERS = frozenset(
    [Wait.CALL, Wait.VALUE, Wait.JAX, Wait.AGREEMENT, Wait.BARRIER, Wait.START, Wait.END]
)


class _Row(NamedTuple):
    wait: Wait
    modules: tuple[str, ...] = ()  # a frame is of one of these, or of a module in it
    functions: tuple[str, ...] = ()  # and of one of these functions, if there are any
    callees: tuple[str, ...] = ()  # or the innermost frame calls something that begins so


# From the most telling to the least. A queue waits for a lock, and a lock for nothing more.
_ROWS = (
    _Row(Wait.AGREEMENT, ("shardlift.mapping.divergence",)),
    _Row(Wait.BARRIER, ("shardlift.arrays.barriers",)),
    _Row(Wait.BARRIER, ("jax.experimental.multihost_utils",)),
    # Where jax.distributed lives is private (2026-11: 0.10.2, 0.12.0.1); if it moves, JAX is named.
    _Row(Wait.START, ("jax._src.distributed",), ("initialize",)),
    _Row(Wait.END, ("jax._src.distributed",), ("shutdown",)),
    _Row(Wait.FILE_LOCK, ("filelock", "portalocker", "fasteners"), (), ("fcntl.",)),
    _Row(Wait.SUBPROCESS, ("subprocess",), (), ("posix.wait",)),
    _Row(Wait.QUEUE, ("queue", "multiprocessing.queues"), (), ("_queue.",)),
    _Row(Wait.SUBPROCESS, ("multiprocessing",)),
    _Row(Wait.INPUT, ("getpass", "pdb", "code"), (), ("builtins.input", "sys.stdin")),
)
_LATER_ROWS = (
    _Row(Wait.EVENTS, ("asyncio",)),
    _Row(Wait.THREAD, ("concurrent.futures",)),
    _Row(Wait.THREAD, ("threading",), ("join", "_wait_for_tstate_lock", "_shutdown")),
    _Row(Wait.NETWORK, ("socket", "ssl", "http", "urllib"), (), ("_socket.", "_ssl.", "select.")),
    _Row(Wait.LOCK, ("threading",), (), ("_thread.", "threading.")),
    _Row(Wait.SLEEP, (), (), ("time.sleep",)),
    _Row(Wait.FILE, (), (), ("_io.", "posix.read", "posix.open")),
)
# Methods of an array that need its value, and functions that do; all public.
_READS = {"block_until_ready", "device_get", "item", "tolist", "__array__", "__iter__"}
_READS |= {"__float__", "__int__", "__bool__", "__index__", "__complex__"}
_READS |= {"__repr__", "__str__", "__format__"}


def find_wait(answer: Answer | None) -> Wait:
    """What the main thread of a process waits for."""
    stack = answer.main if answer else None
    if answer is None or stack is None:
        return Wait.NO_ANSWER
    wait = wait_of(stack)
    return Wait.END if answer.finished and wait is not Wait.THREAD else wait


def wait_of(stack: Stack) -> Wait:
    """What a thread waits for."""
    inside = stack.inside
    if row := _first(_ROWS, inside):
        return row.wait
    if wait := _wait_in_jax(inside):
        return wait
    row = _first(_LATER_ROWS, inside)
    return row.wait if row else Wait.UNKNOWN


def _first(rows: tuple[_Row, ...], frames: tuple[Frame, ...]) -> _Row | None:
    return next((row for row in rows if _matches(row, frames)), None)


def _matches(row: _Row, frames: tuple[Frame, ...]) -> bool:
    if row.callees and frames and frames[0].callee.startswith(row.callees):
        return True
    return any(
        is_of(frame, module) and (not row.functions or last_name(frame) in row.functions)
        for frame in frames
        for module in row.modules
    )


def is_of(frame: Frame, module: str) -> bool:
    """Whether a frame belongs to a module of a library, or to one inside it."""
    return bool(frame.library) and (frame.module == module or frame.module.startswith(f"{module}."))


def last_name(frame: Frame) -> str:
    """The function without what it is in: ``State.shutdown`` is ``shutdown``."""
    return frame.function.rpartition(".")[2]


def _wait_in_jax(frames: tuple[Frame, ...]) -> Wait | None:
    user = next((frame for frame in frames if not frame.library), None)
    jax = [frame for frame in frames if frame.library in ("jax", "jaxlib")]
    if (user and user.calls) or any(is_of(frame, "shardlift.mapping") for frame in frames):
        return Wait.CALL
    if any(_READS.intersection(frame.function.split(".")) for frame in jax):
        return Wait.VALUE
    package, *_, name = frames[0].callee.split(".") if frames and frames[0].callee else ("", "")
    if name == "block_until_ready":  # no other library has one
        return Wait.VALUE
    if package in ("jax", "jaxlib"):
        return Wait.VALUE if name in _READS else Wait.JAX
    return Wait.JAX if jax or any(frame.library == "shardlift" for frame in frames) else None
