"""Names and modules that JAX had once and has no more, and who may still have them.

`former_names.txt` has one line a module: its former names, each with the path of the same thing
in today's JAX, if there is one. The releases 0.2.9 to 0.9.2 were read for it; left out are names
of other libraries that a module only imported, JAX's tests and tools, and the kernel languages
(Pallas, Mosaic), which are younger than pmap's last years and change with every release.

A name without successor is answered by a placeholder, but only where the answer cannot mislead:
code outside JAX that is being imported and does not ask whether the name is there. ``hasattr``,
``getattr`` and ``try`` see the installed JAX, as does code that runs later.
"""

import dis
import functools
import inspect
import types
from pathlib import Path
from typing import Any

_ASKING = {"IMPORT_FROM", "IMPORT_NAME", "LOAD_ATTR", "LOAD_METHOD"}
_PRIVATE = ("jax._src.", "jaxlib.")
_INSIDE = ("jax", "jaxlib", "shardlift", "importlib")


@functools.cache
def _table() -> dict[str, dict[str, str]]:
    text = Path(__file__).with_name("former_names.txt").read_text(encoding="utf-8")
    table = {}
    for line in text.splitlines():
        module, _, names = line.partition(":")
        pairs = (name.partition("=") for name in names.split())
        table[module] = {name: path for name, _, path in pairs}
    return table


def is_private(module: str) -> bool:
    """Is it a module that only JAX itself was meant to import?

    >>> is_private("jax._src.core"), is_private("jaxlib.xla_client"), is_private("jax.core")
    (True, True, False)
    """
    return module.startswith(_PRIVATE)


def ask(module: str, name: str) -> str | None:
    """Where the name is today, "" if nowhere; None if the module never had it."""
    if is_private(module):  # no list of names
        return ""
    return _table().get(module, {}).get(name)


def is_module(name: str) -> bool:
    """Did JAX have a module of this name once, or may it have had, if it is private?"""
    inside = any(module.startswith(f"{name}.") for module in _table())
    return name in _table() or is_private(name) or inside


def may_answer(frame: types.FrameType | None) -> bool:
    """May code in this frame get a placeholder for a name that it asks for?"""
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    if frame is None:
        return False
    if str(frame.f_globals.get("__name__", "")).partition(".")[0] in _INSIDE:
        return False
    if _instruction(frame.f_code, frame.f_lasti) not in _ASKING:
        return False
    direct = True
    while frame is not None and not _is_guarded(frame.f_code, frame.f_lasti):
        if not frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # a module, or a class in one
            return direct or frame.f_globals.get("__name__") != "__main__"
        frame, direct = frame.f_back, False
    return False


@functools.lru_cache(maxsize=4096)
def _instruction(code: types.CodeType, at: int) -> str:
    return next((step.opname for step in dis.get_instructions(code) if step.offset == at), "")


@functools.lru_cache(maxsize=4096)
def _is_guarded(code: types.CodeType, at: int) -> bool:
    """Is the instruction in a ``try`` with an ``except``?"""
    table: Any = getattr(dis.Bytecode(code), "exception_entries", ())
    targets = {entry.target for entry in table if entry.start <= at < entry.end}
    return bool(targets) and any(_catches(code, target) for target in targets)


def _catches(code: types.CodeType, target: int) -> bool:
    """Does the handler at ``target`` catch? The handlers of ``with`` and ``finally`` do not."""
    steps = [step.opname for step in dis.get_instructions(code) if step.offset >= target]
    if not steps or steps[0] != "PUSH_EXC_INFO":
        return False
    end = steps.index("RERAISE") if "RERAISE" in steps else len(steps)
    if "WITH_EXCEPT_START" in steps[:end]:
        return False
    return "CHECK_EXC_MATCH" in steps[:end] or steps[1] == "POP_TOP"
