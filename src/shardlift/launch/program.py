"""Running a Python program inside this process as plain ``python`` would."""

import builtins
import importlib.machinery
import io
import linecache
import os
import pkgutil
import runpy
import sys
import traceback
import types
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from shardlift._legacy.tracebacks import without_our_frames
from shardlift.recording.notebook_lines import note_notebook, print_traceback

# What is imported before the program, by packages that it may have files of the same name as. Not
# the standard library: JAX needs most of it as well.
_OURS = ("click", "packaging", "rich")


@dataclass(frozen=True)
class Program:
    """A script or a notebook, or with ``module`` the name of a module, and its arguments."""

    target: str
    args: tuple[str, ...] = ()
    module: bool = False

    @property
    def package(self) -> str:
        """The package of a module, which may be an installed one; otherwise empty."""
        return self.target.partition(".")[0] if self.module else ""

    def run(self) -> None:
        """Run it as ``__main__``; what it raises, ``SystemExit`` included, comes out."""
        sys.argv = [self.target, *self.args]
        if self.module:
            _set_folder(os.getcwd())
            _run_module(self.target)
        elif pkgutil.get_importer(self.target) is not None:  # a folder or a zip file
            _set_folder(_absolute(self.target), always=True)
            _run_module("__main__", alter_argv=False)
        else:
            _set_folder(os.path.dirname(os.path.realpath(self.target)))
            _run_file(self.target)


def _set_folder(folder: str, *, always: bool = False) -> None:
    """Put the program's folder first in ``sys.path``, in the place of this command's folder.

    With ``python -P`` and ``-I`` neither is there, unless the folder is the program.
    """
    if not sys.flags.safe_path:
        sys.path[0] = folder
    elif always:
        sys.path.insert(0, folder)
    else:
        return
    for name in _OURS:
        if importlib.machinery.PathFinder.find_spec(name, [folder]) is not None:
            for module in [m for m in sys.modules if m.partition(".")[0] == name]:
                del sys.modules[module]


def _absolute(path: str) -> str:
    """As python does since 3.9: dots and links stay."""
    return os.getcwd() if path == "." else os.path.join(os.getcwd(), path)


def _run_module(name: str, *, alter_argv: bool = True) -> None:
    # What python itself calls. runpy.run_module and run_path take __main__ away again before
    # threads and exit handlers end.
    sys.modules["__main__"] = _main_module()
    runpy._run_module_as_main(name, alter_argv)  # type: ignore[attr-defined]


def _run_file(path: str) -> None:
    path = _absolute(path)
    with io.open_code(path) as file:
        content = file.read()
    source = _cells(path, content) if path.endswith(".ipynb") else content
    code = compile(source, path, "exec", dont_inherit=True)
    main = _main_module()
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    main.__dict__.update(__file__=path, __cached__=None, __loader__=loader)
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def _main_module() -> types.ModuleType:
    """``__main__`` as python makes it before it runs a program."""
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    if sys.version_info < (3, 14):  # where annotations became lazy
        main.__annotations__ = {}
    return main


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
    sys.excepthook = print_traceback
    if notebook.cells is not None:
        note_notebook(path, notebook.cells)
    lines = notebook.text.splitlines(keepends=True)
    linecache.cache[path] = (len(notebook.text), None, lines, path)
    return notebook.text


# 2026-11, jaxlib 0.10.2 to 0.11.2: XLA has as many threads as there are cores or devices,
# whichever is more. They run the steps, and they also hand steps over to the devices, where each
# waits while its device has 32 computations to do. A thread that waits there can be the one that
# the running step lacks, whose collectives wait for all devices: a deadlock. One more thread per
# device rules it out, if one thread of the program calls JAX. Without asynchronous dispatch it
# happens as well. jaxlib 0.12 runs the steps in threads of their own.
# Not in _compat.py, which imports JAX.
_THREADS_PER_DEVICE = 2


def virtual_devices(devices: int, environ: MutableMapping[str, str]) -> None:
    """Ask for so many virtual CPU devices, and threads enough for them; before JAX is imported.

    A number of threads that is set already, by ``PJRT_NPROC``, stays.

    >>> from shardlift.launch.program import virtual_devices
    >>> env = {"PJRT_NPROC": "2"}
    >>> virtual_devices(4, env)
    >>> env
    {'PJRT_NPROC': '2', 'JAX_PLATFORMS': 'cpu', 'JAX_NUM_CPU_DEVICES': '4'}
    """
    environ.update(JAX_PLATFORMS="cpu", JAX_NUM_CPU_DEVICES=str(devices))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    environ.setdefault("PJRT_NPROC", str(max(_THREADS_PER_DEVICE * devices, cores or 1)))


def use_virtual_devices(devices: int) -> None:
    """Use so many virtual CPU devices in this process; RuntimeError if JAX has already started."""
    virtual_devices(devices, os.environ)
    jax: Any = sys.modules.get("jax")  # it may have been imported, by a sitecustomize for example
    if jax is None:
        return
    try:
        jax.config.update("jax_platforms", "cpu")
        jax.config.update("jax_num_cpu_devices", devices)
    except RuntimeError as error:
        raise RuntimeError(
            f"JAX has already started: {error}. Set JAX_PLATFORMS=cpu "
            f"JAX_NUM_CPU_DEVICES={devices} in the environment instead."
        ) from None


def report_uncaught(error: BaseException) -> tuple[int, str]:
    """Print the traceback as plain python does; return the exit status and the traceback.

    The frames of shardlift and runpy, which plain python does not have, are left out.
    """
    without_our_frames(error)
    sys.excepthook(type(error), error, error.__traceback__)
    status = 130 if isinstance(error, KeyboardInterrupt) else 1
    return status, "".join(traceback.format_exception(error))


def plain_environment(devices: int | None) -> dict[str, str]:
    """The environment without settings of JAX; with virtual CPU devices if a number is given."""
    current = os.environ.items()
    env = {k: v for k, v in current if not k.startswith("JAX_") and k != "XLA_FLAGS"}
    if devices is not None:
        virtual_devices(devices, env)
    return env | {"PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1"}
