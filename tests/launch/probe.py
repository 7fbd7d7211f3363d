"""Prints, as JSON, all that a program can see of the process in which it runs.

Run as a program by `test_like_python.py`, by plain python and by ``shardlift run``.
"""

import atexit
import builtins
import dataclasses
import faulthandler
import functools
import inspect
import json
import logging
import multiprocessing
import os
import pickle
import random
import signal
import sys
import threading
import warnings

if "--jax" in sys.argv:
    import jax

seed: int = 3


@dataclasses.dataclass
class Config:
    """Its fields have types, not strings."""

    lr: float = 0.1
    steps: "int" = 3


def annotated(x: int, *, name: "str" = "") -> list[int]:
    """Annotations as the compiler keeps them."""
    return [x, len(name)]


def describe(value: object) -> object:
    """What JSON has no word for, without its address."""
    if isinstance(value, type) or callable(value):
        return f"{value.__module__}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    return f"{type(value).__module__}.{type(value).__qualname__}"


def main_module() -> dict[str, object]:
    """The attributes of ``__main__``."""
    main = sys.modules["__main__"]
    plain = {name: value for name, value in vars(main).items() if name.startswith("__")}
    return {
        "is this module": vars(main) is globals(),
        "names": sorted(vars(main)),
        "loader": getattr(main.__loader__, "name", None),
        "builtins": plain.pop("__builtins__") is builtins,
        "annotations": repr(plain.pop("__annotations__", None)),
        "values": plain,
        "names of builtins": sorted(vars(builtins)),
    }


def code() -> dict[str, object]:
    """What was compiled, and how it is found again."""
    return {
        "types of fields": [repr(field.type) for field in dataclasses.fields(Config)],
        "annotations": {name: repr(value) for name, value in annotated.__annotations__.items()},
        "flags": annotated.__code__.co_flags,
        "file": annotated.__code__.co_filename,
        "source": inspect.getsource(Config),
        "module of source": inspect.getmodule(Config) is sys.modules["__main__"],
        "pickled": pickle.loads(pickle.dumps(Config(2.0))) == Config(2.0),
        "pickled by name": pickle.loads(pickle.dumps(annotated)) is annotated,
    }


def interpreter() -> dict[str, object]:
    """The settings of the interpreter."""
    return {
        "flags": repr(sys.flags),
        "argv": sys.argv,
        "path": sys.path,
        "executable": sys.executable,
        "warn options": sys.warnoptions,
        "x options": sys._xoptions,
        "path hooks": [describe(hook) for hook in sys.path_hooks],
        "meta path": [describe(finder) for finder in sys.meta_path],
        "recursion limit": sys.getrecursionlimit(),
        "bytecode": [sys.dont_write_bytecode, sys.pycache_prefix],
        "tracing": [sys.gettrace(), sys.getprofile()],
    }


def hooks() -> dict[str, object]:
    """Whether the hooks of the interpreter are its own."""
    return {
        "excepthook": sys.excepthook is sys.__excepthook__,
        "displayhook": sys.displayhook is sys.__displayhook__,
        "unraisablehook": sys.unraisablehook is sys.__unraisablehook__,
        "breakpointhook": sys.breakpointhook is sys.__breakpointhook__,
        "threads": describe(threading.excepthook),
        "warnings": [describe(warnings.showwarning), describe(warnings.formatwarning)],
        "filters": [
            [action, message and message.pattern, describe(category), module and str(module), line]
            for action, message, category, module, line in warnings.filters
        ],
        "signals": {
            str(number): describe(handler) if callable(handler) else str(handler)
            for number in signal.valid_signals()
            for handler in [signal.getsignal(number)]
        },
        "blocked signals": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "faulthandler": faulthandler.is_enabled(),
        "logging": [[describe(h) for h in logging.root.handlers], logging.root.level],
    }


def process() -> dict[str, object]:
    """What the operating system knows of it."""
    streams = {"stdin": sys.stdin, "stdout": sys.stdout, "stderr": sys.stderr}
    return {
        "folder": os.getcwd(),
        "environment": dict(os.environ),
        "threads": [thread.name for thread in threading.enumerate()],
        "main thread": threading.current_thread() is threading.main_thread(),
        "streams": {
            name: [describe(s), s.encoding, s.errors, s.line_buffering, s.write_through]
            for name, s in streams.items()
        },
        "same streams": [sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__],
        "start method": multiprocessing.get_start_method(allow_none=True),
        "files": sorted(os.listdir("/proc/self/fd")) if sys.platform == "linux" else [],
    }


def spawned() -> object:
    """What a spawned child sees of the module that it imports again."""
    spec = sys.modules["__main__"].__spec__
    if spec is not None and spec.name == "__main__":
        return None  # a folder or a zip file: python does not import these again
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        return pool.apply(child, (Config(3.0),))


def child(config: Config) -> object:
    """Runs in the child."""
    return [__name__, config.lr, type(config).__module__, sys.argv, sys.path[0], __file__]


def jax_settings() -> object:
    """The settings of JAX, and what importing it changed."""
    if "--jax" not in sys.argv:
        return None
    names = [name for name in dir(jax.config) if name.startswith("jax_")]
    numbers = jax.numpy.arange(3.0) @ jax.numpy.ones(3)
    return {
        "values": {name: getattr(jax.config, name) for name in names},
        "devices": [str(device) for device in jax.devices()],
        "result": [str(numbers), str(numbers.dtype), str(numbers.sharding)],
        "loader": describe(jax.__spec__.loader),
        "loggers": sorted(name for name in logging.root.manager.loggerDict if "shardlift" in name),
    }


def main() -> None:
    """Print all of it; a file takes what exit handlers and threads see when the program ends."""
    seen = {
        "main": main_module(), "code": code(), "interpreter": interpreter(), "hooks": hooks(),
        "process": process(), "spawned": spawned(), "jax": jax_settings(),
        "seeded": random.getstate() == random.Random(0).getstate(),
    }  # fmt: skip
    print(json.dumps(seen, default=describe), flush=True)
    end = functools.partial(at_end, os.environ.get("PROBE_END", os.devnull))
    atexit.register(end, "exit handler")
    threading.Thread(target=after_main, args=(end,)).start()


def after_main(end: functools.partial) -> None:
    """A thread that the program does not wait for."""
    threading.main_thread().join()
    end("thread")


def at_end(path: str, who: str) -> None:
    """Whether ``__main__`` is still there."""
    main = vars(sys.modules["__main__"])
    with open(path, "a") as file:
        print(who, main is globals(), main.get("seed"), type(Config()).__name__, file=file)


if __name__ == "__main__":
    main()
