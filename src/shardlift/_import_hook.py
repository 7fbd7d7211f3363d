"""A hook that runs once the program has imported a module."""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls ``then(module)`` when the module of this name has been imported, once.

    If ``inside``, it does so for every module of that package that is imported from now on.
    """

    def __init__(
        self, name: str, then: Callable[[ModuleType], None], *, inside: bool = False
    ) -> None:
        """Has no effect before ``install``."""
        self.name, self.then, self.inside = name, then, inside
        self._asked: set[str] = set()

    def install(self) -> Callable[[], None]:
        """Watch imports from now on; returns what stops it."""
        sys.meta_path.insert(0, self)
        return self.remove

    def remove(self) -> None:
        """Stop watching; has no effect a second time."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, *_: Sequence[str] | ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's own spec, with a loader that calls ``then`` afterwards."""
        wanted = fullname.startswith(f"{self.name}.") if self.inside else fullname == self.name
        if not wanted or fullname in self._asked:
            return None
        if not self.inside:
            self.remove()
        self._asked.add(fullname)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asked.discard(fullname)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader, self.then)
        return spec


class _Loader(importlib.abc.Loader):
    def __init__(self, inner: Any, then: Callable[[ModuleType], None]) -> None:
        self.inner, self.then = inner, then

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self.inner.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        self.inner.exec_module(module)
        # The program must see the module as plain Python loads it: some pickle or compare
        # `__loader__`, or read resources through it.
        own = self.inner
        while isinstance(own, _Loader):  # of another hook for the same module
            own = own.inner
        module.__loader__ = own
        if module.__spec__ is not None:
            module.__spec__.loader = own
        self.then(module)
