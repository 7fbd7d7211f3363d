"""What the threads of this process are doing, as records. Runs in a thread of the process itself.

No code of the program is run to find out: attributes are looked up without descriptors and
``__getattr__``, and objects are compared by identity.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import itertools
import linecache
import sys
import threading
import types
from typing import Any

from shardlift.launch.stacks import Answer, Frame, Mapped, Stack, library_of, without_runner

__all__ = ["take_snapshot"]

_NAMED = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    type,
)


def take_snapshot(finished: bool) -> Answer:
    """The stacks of all threads but the one that calls this."""
    own = _own_package()
    threads = {thread.ident: thread for thread in threading.enumerate()}
    stacks = [
        _stack(frame, threads.get(ident), own)
        for ident, frame in sys._current_frames().items()
        if ident != threading.get_ident()
    ]
    return Answer(tuple(stacks), finished)


def _own_package() -> str:
    package = getattr(sys.modules.get("__main__"), "__package__", None)
    return package.partition(".")[0] if isinstance(package, str) else ""


def _stack(frame: types.FrameType, thread: threading.Thread | None, own: str) -> Stack:
    frames: list[Frame] = []
    current: types.FrameType | None = frame
    while current is not None:
        frames.append(_record(current, own, innermost=current is frame))
        current = current.f_back
    name = thread.name if thread else "unknown"
    return Stack(name, thread is threading.main_thread(), without_runner(frames))


def _record(frame: types.FrameType, own: str, innermost: bool) -> Frame:
    code = frame.f_code
    module = str(frame.f_globals.get("__name__", ""))
    library = library_of(code.co_filename, module, own)
    known = Frame(code.co_filename, frame.f_lineno, code.co_qualname, module, library)
    if library and not innermost:
        return known
    expression = expression_of(frame)
    target, name = called_by(frame, expression)
    return Frame(
        known.file,
        known.line,
        known.function,
        module,
        library,
        " ".join(expression.split()),
        callee_name(target) or unknown_callee(name),
        mapped_from(name, target),
        () if library else _near(frame),
    )


def expression_of(frame: types.FrameType) -> str:
    """The source of what a frame is evaluating; empty if that is not known."""
    positions = itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None)
    first, last, begin, end = next(positions, (None, None, None, None))
    if first is None or last is None or begin is None or end is None:
        return ""
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)[first - 1 : last]
    if not lines:
        return ""
    encoded = [line.encode() for line in lines]  # columns are counted in bytes
    encoded[-1] = encoded[-1][:end]
    encoded[0] = encoded[0][begin:]
    return b"".join(encoded).decode(errors="replace")


_NOTHING = object()


def _is(thing: Any, *kinds: type) -> bool:
    """As ``isinstance``, which asks the object for its ``__class__``."""
    return issubclass(type(thing), kinds)


def called_by(frame: types.FrameType, expression: str) -> tuple[object, str]:
    """What an expression calls, or else what it is about, and the name it has there."""
    try:
        node = ast.parse(f"({expression})", mode="eval").body
    except (SyntaxError, ValueError):
        return _NOTHING, ""
    target = node.func if isinstance(node, ast.Call) else node
    return _resolve(target, frame), ast.unparse(target)


def _resolve(node: ast.expr, frame: types.FrameType) -> object:
    if isinstance(node, ast.Name):
        for names in (frame.f_locals, frame.f_globals, vars(builtins)):
            if node.id in names:
                found: object = names[node.id]
                return found
    if isinstance(node, ast.Attribute):
        owner: Any = _resolve(node.value, frame)
        if owner is sys.stdin:
            return owner  # whatever is done with it
        if _is(owner, types.ModuleType):
            return vars(owner).get(node.attr, _NOTHING)
        if owner is not _NOTHING:
            return inspect.getattr_static(owner, node.attr, _NOTHING)
    return _NOTHING


def callee_name(target: Any) -> str:
    """The full name of a function, or of the type of an object."""
    if target is _NOTHING:
        return ""
    if target is sys.stdin:
        return "sys.stdin"
    if _is(target, staticmethod, classmethod, types.MethodType):
        target = target.__func__
    named: Any = target if _is(target, *_NAMED) else type(target)
    module = getattr(getattr(named, "__objclass__", named), "__module__", None)
    if module is None:  # a bound method of a built-in type
        module = type(named.__self__).__module__
    return f"{module}.{named.__qualname__}"


def unknown_callee(name: str) -> str:
    """A method of something that only running the program could tell: ``f(x).item``.

    >>> unknown_callee("f(x).item")
    '?.item'
    """
    return f"?.{name.rpartition('.')[2]}" if name else ""


def mapped_from(name: str, target: object) -> Mapped | None:
    """The pmapped or jitted function that an object is."""
    kind = _kind(target)
    if kind is None:
        return None
    inner: Any = inspect.unwrap(target)  # type: ignore[arg-type]
    while _is(inner, functools.partial):
        inner = inner.func
    if _is(inner, types.MethodType):
        inner = inner.__func__
    if not _is(inner, types.FunctionType):
        return Mapped(name, kind, type(inner).__qualname__)
    file, line = inner.__code__.co_filename, inner.__code__.co_firstlineno
    if library_of(file, inner.__module__ or ""):
        return Mapped(name, kind, inner.__qualname__)
    return Mapped(name, kind, inner.__qualname__, file, line)


def _kind(target: Any) -> str | None:
    if _is(target, types.FunctionType) and "lower" in vars(target):
        return "pmap"  # shardlift.pmap, and jax.pmap
    return {"PmapFunction": "pmap", "PjitFunction": "jit"}.get(type(target).__name__)


def _near(frame: types.FrameType) -> tuple[Mapped, ...]:
    code = frame.f_code
    names = dict.fromkeys((*code.co_varnames, *code.co_names, *code.co_freevars))
    found = [mapped_from(name, _resolve(ast.Name(name), frame)) for name in names]
    return tuple(mapped for mapped in found if mapped and mapped.file)  # none of a library
