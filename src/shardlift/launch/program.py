"""Running a Python program inside this process as plain ``python`` would."""

from __future__ import annotations

import io
import linecache
import os
import runpy
import sys
import traceback
import types
from collections.abc import MutableMapping
from dataclasses import dataclass

from shardlift._legacy.tracebacks import without_our_frames

__all__ = ["Program", "report_uncaught", "virtual_devices"]


@dataclass(frozen=True)
class Program:
    """A script or a notebook, or with ``module`` the name of a module, and its arguments."""

    target: str
    args: tuple[str, ...] = ()
    module: bool = False

    def run(self) -> None:
        """Run it as ``__main__``; what it raises, ``SystemExit`` included, comes out."""
        sys.argv = [self.target, *self.args]
        if self.module:
            sys.path[0] = os.getcwd()
            runpy.run_module(self.target, run_name="__main__", alter_sys=True)
        elif os.path.isdir(self.target) or self.target.endswith((".zip", ".pyz")):
            runpy.run_path(self.target, run_name="__main__")
        else:
            sys.path[0] = os.path.dirname(os.path.realpath(self.target))
            _run_file(self.target)


def _run_file(path: str) -> None:
    # Not runpy.run_path, which takes __main__ away again before threads and exit handlers end.
    path = os.path.join(os.getcwd(), path)  # as python does since 3.9, dots and links and all
    with io.open_code(path) as file:
        content = file.read()
    code = compile(_cells(path, content) if path.endswith(".ipynb") else content, path, "exec")
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=__builtins__, __spec__=None)
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def _cells(path: str, content: bytes) -> str:
    """The code cells of a notebook, in order; shell lines and magics do nothing."""
    from shardlift.source.text import UnreadableError, read_source

    try:
        notebook = read_source(path, content)
    except UnreadableError as error:
        sys.exit(f"shardlift: {path} {error}")
    for number in notebook.cells.broken if notebook.cells else ():
        print(f"shardlift: cell {number} of {path} is not Python, and is left out", file=sys.stderr)
    # Tracebacks would show lines of JSON: python's own, before 3.13, read the file themselves.
    sys.excepthook = traceback.print_exception
    lines = notebook.text.splitlines(keepends=True)
    linecache.cache[path] = (len(notebook.text), None, lines, path)
    return notebook.text


def virtual_devices(devices: int, environ: MutableMapping[str, str]) -> None:
    """Ask for so many virtual CPU devices; before JAX is imported.

    >>> from shardlift.launch import virtual_devices
    >>> env = {"HOME": "/"}
    >>> virtual_devices(4, env)
    >>> env
    {'HOME': '/', 'JAX_PLATFORMS': 'cpu', 'JAX_NUM_CPU_DEVICES': '4'}
    """
    environ.update(JAX_PLATFORMS="cpu", JAX_NUM_CPU_DEVICES=str(devices))


def report_uncaught(error: BaseException) -> tuple[int, str]:
    """Print the traceback as plain python does; return the exit status and the traceback.

    The frames of shardlift and runpy, which plain python does not have, are left out.
    """
    without_our_frames(error)
    sys.excepthook(type(error), error, error.__traceback__)
    status = 130 if isinstance(error, KeyboardInterrupt) else 1
    return status, "".join(traceback.format_exception(error))
