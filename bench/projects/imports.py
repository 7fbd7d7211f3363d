"""Does it import on today's JAX? Modules of a project, imported in a child process.

What is installed is imported for real: JAX, flax, optax and so on. Libraries that are not
installed (TensorFlow, simulators) are stand-ins that take every use, so that only JAX and the
installed libraries decide. Each module is imported in a fork of its own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

TIMEOUT = 240.0


@dataclass
class Imports:
    """Which modules were tried, and what came of it: per module "" or what stopped it."""

    files: list[str]
    plain: dict[str, str] = field(default_factory=dict)
    run: dict[str, str] = field(default_factory=dict)  # the same files under `shardlift run`
    fix: dict[str, str] = field(default_factory=dict)
    migrate: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, files: Sequence[str]) -> Imports:
        """Import the files of the project in the current folder, plainly and under `run`."""
        return cls(list(files), try_imports(files, False), try_imports(files, under_run=True))


def try_imports(files: Sequence[str], under_run: bool) -> dict[str, str]:
    """What stops the import of each file; "" where nothing does."""
    if not files:
        return {}
    command = [sys.executable, str(Path(__file__).resolve()), *files]
    if under_run:
        command[1:1] = ["-m", "shardlift.cli", "run", "--quiet"]
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "2"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT, check=False, env=env
        )
    except subprocess.TimeoutExpired:
        return dict.fromkeys(files, f"not done in {TIMEOUT:.0f} s")
    for line in reversed(done.stdout.splitlines()):
        if line.startswith('{"imports":'):
            return dict(json.loads(line)["imports"])
    last = (done.stderr.strip().splitlines() or ["no output"])[-1]
    return dict.fromkeys(files, last[:200])


def _main(files: list[str]) -> None:
    """The child: prints one line of JSON."""
    import importlib.abc
    import importlib.machinery
    from unittest.mock import MagicMock

    class StandIn(MagicMock):
        """A library that is not installed."""

        __path__ = ()
        __all__ = ()
        __version__ = "99.0.0"

    class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        """Finds every module that nothing else finds, unless it belongs to JAX or the project."""

        def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
            top = name.partition(".")[0]
            there = importlib.machinery.PathFinder.find_spec(top) is not None
            # flax's own module for TensorBoard needs TensorFlow; what else a library asks for is
            # optional, and it knows what to do without.
            asked = name != top or top.startswith("tensor") or _asked_by_project()
            if there or not asked:
                return None
            return importlib.machinery.ModuleSpec(name, self)

        def create_module(self, spec):  # type: ignore[no-untyped-def]
            return StandIn(name=spec.name)

        def exec_module(self, module):  # type: ignore[no-untyped-def]
            return None

    sys.path[:1] = [os.getcwd(), os.path.join(os.getcwd(), "src")]
    sys.meta_path.append(Finder())
    import jax  # noqa: F401

    results = {file: _in_fork(file) for file in files}
    print(json.dumps({"imports": results}))


def _asked_by_project() -> bool:
    """Whether a file of the project imports: installed libraries know what is optional."""
    frame, here = sys._getframe(), os.getcwd()
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith("<frozen importlib") and name != __file__:
            return os.path.abspath(name).startswith(here)
        frame = frame.f_back
    return False


def _in_fork(file: str) -> str:
    """Import one file in a fork of this process; what stopped it, or ""."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.write(writing, _import_file(file).encode()[:2000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return text if status == 0 else f"ended by signal {status & 127}"


def _import_file(file: str) -> str:
    import importlib
    import signal

    signal.alarm(40)
    sys.argv = [file]
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    folder = os.path.dirname(os.path.abspath(file))
    package = os.path.splitext(file)[0].replace(os.sep, ".").removesuffix(".__init__")
    for name, places in (
        (package, []),
        (package.removeprefix("src."), []),
        (_stem(file), [folder]),
    ):
        sys.path[:0] = places
        try:
            importlib.import_module(name)
        except ImportError as error:
            # Not in a package after all, or imported from its own folder: the next name.
            message, is_own = _told(error), "relative import" in str(error)
            if not (is_own or (error.name or "").split(".")[0] in _own_names(file)):
                return message
        except BaseException as error:
            return _told(error)
        else:
            return ""
    return message


def _told(error: BaseException) -> str:
    text = (str(error).strip().splitlines() or [""])[0]
    text = re.sub(r" \(/[^)]*\)$", "", text)  # where a package is installed
    return f"{type(error).__name__}: {text}"[:200]


def _stem(file: str) -> str:
    return os.path.splitext(os.path.basename(file))[0]


def _own_names(file: str) -> set[str]:
    folders = [".", os.path.dirname(file) or ".", "src"]
    entries = {entry for folder in folders if os.path.isdir(folder) for entry in os.listdir(folder)}
    return {os.path.splitext(entry)[0] for entry in entries} | {os.path.basename(os.getcwd())}


if __name__ == "__main__":
    _main(sys.argv[1:])
