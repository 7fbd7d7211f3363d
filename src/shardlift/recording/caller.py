"""Which frames and lines are the program's own, and what it calls its functions."""

import contextlib
import functools
import linecache
import os
import re
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

# Frames of these are skipped: they call pmap, or read outputs, for the program.
GLUE = ("shardlift", "jax", "jaxlib", "flax", "equinox", "haiku", "chex", "optax")
# So do the functions that `shardlift migrate` writes into programs.
_WRITTEN = ("spmd_map", "shard_map_per_device")
_NO_NAMES = {"<lambda>", "wrapper", "wrapped", "inner", "block", "_fun", "partial"}
# What restores old keywords calls for the program.
_RENAMING = os.path.join("shardlift", "_legacy", "keywords.py")
_STANDARD = (contextlib.__file__, functools.__file__, "<frozen")


def user_line() -> tuple[str, int]:
    """File and line of the innermost frame that is not of a library which passes calls on."""
    frame: FrameType | None = sys._getframe(1)
    outermost = frame
    while frame is not None and _passes_on(frame):
        outermost, frame = frame, frame.f_back
    chosen = frame or outermost
    assert chosen is not None
    return shown(chosen.f_code.co_filename), chosen.f_lineno


def is_users(frame: FrameType) -> bool:
    """Does the program call here, or a library for it? Not JAX or this package themselves.

    What one of the libraries above maps while it is imported is not the program's; any other
    installed module may be a part of the program.
    """
    while frame.f_code.co_filename.endswith(_RENAMING) and frame.f_back is not None:
        frame = frame.f_back
    file = frame.f_code.co_filename
    if file.startswith(tuple(map(_folder, GLUE[:3]))):
        return False
    return frame.f_code.co_name != "<module>" or not is_glue(file)


def _passes_on(frame: FrameType) -> bool:
    code = frame.f_code
    return is_glue(code.co_filename) or code.co_qualname.partition(".")[0] in _WRITTEN


@functools.cache
def is_glue(filename: str) -> bool:
    """Is this a file of such a library?"""
    return filename.startswith((*_STANDARD, *map(_folder, GLUE)))


def _folder(package: str) -> str:
    module = sys.modules.get(package)
    file = getattr(module, "__file__", None)
    return os.path.join(os.path.dirname(file), "") if file else "\0"


@functools.cache
def shown(filename: str) -> str:
    """A file as people write it: from the current folder if it is in it."""
    folder = os.path.join(os.getcwd(), "")
    return filename.removeprefix(folder) if filename.startswith(folder) else filename


def names_of(fun: Any) -> Iterator[str]:
    """The names of a function and of the functions that it wraps, the outermost first."""
    seen: set[int] = set()
    while fun is not None and id(fun) not in seen:
        seen.add(id(fun))
        name = getattr(fun, "__name__", type(fun).__name__)
        if isinstance(name, str) and name not in _NO_NAMES:
            yield name
        inner = _wrapped(fun)
        if inner is None and len(held := _held(fun)) == 1:  # the function of a helper
            inner = held[0]
        fun = inner


def _wrapped(fun: Any) -> Any:
    inner = fun.func if isinstance(fun, functools.partial) else None
    return inner or getattr(fun, "__wrapped__", None) or getattr(fun, "__func__", None)


def _held(fun: Any) -> list[Any]:
    """The functions in the closure of a function."""
    held = []
    for cell in getattr(fun, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # it is empty
            held.append(cell.cell_contents)
    return [function for function in held if callable(function)]


def codes_of(fun: Any, depth: int = 4) -> tuple[Any, ...]:
    """What tells functions apart that one line maps: their codes, and those that they hold."""
    inner = _wrapped(fun)
    if inner is not None and depth:
        return codes_of(inner, depth - 1)
    code = getattr(fun, "__code__", None) or getattr(type(fun).__call__, "__code__", type(fun))
    return (code, *(codes_of(held, depth - 1) for held in _held(fun) if depth))


def assigned_name(file: str, line: int) -> str | None:
    """The variable that a line assigns to."""
    match = re.match(r"\s*(?:self\.)?(\w+)\s*(?::[^=]+)?=[^=]", linecache.getline(file, line))
    return match[1] if match else None
