"""Removed names and modules, looked up when a program asks for them.

Python calls a module's ``__getattr__`` (PEP 562) for names that the module does not have, for
``jax.tree_map`` as for ``from jax import tree_map``: nothing is imported, and no attribute is
set, before a program asks for it.
"""

from __future__ import annotations

import functools
import importlib.machinery
import sys
import types
from collections.abc import Callable
from typing import Any

from shardlift._import_hook import AfterImport
from shardlift._legacy import names
from shardlift._legacy.patches import Patches
from shardlift._legacy.uses import Uses

__all__ = ["restore", "when_imported"]


def restore(patches: Patches, uses: Uses, here: names.Version) -> None:
    """Restore every name that JAX of version ``here`` does not have."""
    removed: dict[str, dict[str, Any]] = {module: {} for module in names.HOMES}
    for row in names.rows():
        if row.gone <= here:
            module, _, name = row.name.rpartition(".")
            removed.setdefault(module, {})[name] = row.successor
    for name, (_, home) in names.MODULES.items():  # JAX 0.10 has none of them
        stub = _stub(name, home, removed.pop(name, {}), uses)
        patches.item(sys.modules, name, stub)
        parent, _, child = name.rpartition(".")
        removed.setdefault(parent, {})[child] = stub
    for name, paths in removed.items():
        when_imported(name, patches, functools.partial(_extend, patches, uses, paths))


def when_imported(name: str, patches: Patches, then: Callable[[types.ModuleType], None]) -> None:
    """Call ``then(module)``: now, if the module is imported, or else when it is."""
    if name in sys.modules:
        then(sys.modules[name])
        return
    hook = AfterImport(name, then)
    hook.install()
    patches.on_undo(hook.remove)


def _extend(patches: Patches, uses: Uses, paths: dict[str, Any], module: types.ModuleType) -> None:
    """Let an existing module return its removed names."""
    own = vars(module).get("__getattr__")
    finder = _Finder(module.__name__, paths, names.HOMES.get(module.__name__, ""), uses, own)
    patches.set(module, "__getattr__", finder.find)


def _stub(name: str, home: str, paths: dict[str, Any], uses: Uses) -> types.ModuleType:
    """A removed module: its names are looked up where they live now."""
    stub = types.ModuleType(name, f"{name}, as shardlift restores it.")
    stub.__spec__ = importlib.machinery.ModuleSpec(name, None)
    finder = _Finder(name, paths, home, uses, None)
    stub.__getattr__ = finder.find  # type: ignore[method-assign]
    return stub


class _Finder:
    """Finds an attribute that a module does not have."""

    def __init__(
        self,
        module: str,
        paths: dict[str, Any],
        home: str,
        uses: Uses,
        own: Callable[[str], Any] | None,
    ) -> None:
        self.module, self.paths, self.home, self.uses, self.own = module, paths, home, uses, own
        self.values: dict[str, Any] = {}

    def find(self, name: str) -> Any:
        """The attribute of this name, or AttributeError."""
        if name.startswith("__"):
            return self._all() if name == "__all__" and self._is_stub() else self._refuse(name)
        if name not in self.paths:
            return self._elsewhere(name)
        if name not in self.values:
            self.values[name] = self._value(name)
        value = self.values[name]
        if not getattr(value, "__counts_calls__", False):
            self.uses.note(f"{self.module}.{name}")
        return value

    def _is_stub(self) -> bool:
        return self.module in names.MODULES

    def _all(self) -> list[str]:
        """The names for ``from stax import *``."""
        home_names = [n for n in dir(names.resolve(self.home)) if n[0] != "_"] if self.home else []
        return sorted({*self.paths, *home_names})

    def _value(self, name: str) -> Any:
        path = self.paths[name]
        value = names.resolve(path) if isinstance(path, str) else path
        ours = isinstance(path, str) and path.startswith("shardlift.")
        if ours and isinstance(value, types.FunctionType):
            return _count_calls(value, self.uses.counter(f"{self.module}.{name}"))
        return value

    def _elsewhere(self, name: str) -> Any:
        """The value from the module's own ``__getattr__``, or from the module's former source."""
        try:
            return self._refuse(name)
        except AttributeError:
            home = names.resolve(self.home) if self.home and name[0] != "_" else None
            if not hasattr(home, name):
                raise
        # A use of a removed module is noted under the module's name, not under each name in it.
        self.uses.note(self.module if self._is_stub() else f"{self.module}.{name}")
        return getattr(home, name)

    def _refuse(self, name: str) -> Any:
        if self.own is not None:
            return self.own(name)
        raise AttributeError(f"module {self.module!r} has no attribute {name!r}")


def _count_calls(function: Callable[..., Any], note: Callable[[], None]) -> Callable[..., Any]:
    @functools.wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        note()
        return function(*args, **kwargs)

    counted.__counts_calls__ = True  # type: ignore[attr-defined]
    return counted
