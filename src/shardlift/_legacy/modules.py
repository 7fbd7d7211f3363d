"""Removed names and modules, looked up when a program asks for them.

Python calls a module's ``__getattr__`` (PEP 562) for names that the module does not have, for
``jax.tree_map`` as for ``from jax import tree_map``: nothing is imported, and no attribute is
set, before a program asks for it.
"""

import contextlib
import dataclasses
import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from shardlift._import_hook import AfterImport
from shardlift._legacy import former, names
from shardlift._legacy.patches import Patches, Uses
from shardlift._legacy.placeholders import placeholder

_ABSENT: Any = object()
# Packages of restored modules: the import of `jax.tools.colab_tpu` does not load `jax.tools`.
_PACKAGES = frozenset(name.rpartition(".")[0] for name in names.MODULES) - {"jax", "jaxlib"}


def restore(patches: Patches, uses: Uses, here: names.Version) -> None:
    """Restore every name that JAX of version ``here`` does not have."""
    removed: dict[str, dict[str, Any]] = {}
    for row in names.rows():
        if row.gone <= here:
            module, _, name = row.name.rpartition(".")
            removed.setdefault(module, {})[name] = row.successor
    for name, (gone, home) in sorted(names.MODULES.items(), reverse=True):  # children first
        if gone > here:
            continue
        stub = _stub(name, home, removed.pop(name, {}), uses)
        patches.item(sys.modules, name, stub)
        parent, _, child = name.rpartition(".")
        removed.setdefault(parent, {})[child] = stub

    def extend(module: types.ModuleType) -> None:
        """Let an existing module return its removed names."""
        own = vars(module).get("__getattr__")
        paths = removed.get(module.__name__, {})
        home = names.HOMES.get(module.__name__, "")
        finder = _Finder(module.__name__, paths, home, uses, own)
        patches.set(module, "__getattr__", finder.find)

    for package in ("jax", "jaxlib"):
        for path, loaded in list(sys.modules.items()):
            inside = path == package or path.startswith(f"{package}.")
            if inside and path not in names.MODULES and type(loaded) is types.ModuleType:
                extend(loaded)
        patches.on_undo(AfterImport(package, extend, inside=True).install())
    extend(sys.modules["numpy"])  # JAX has imported it
    modules = _FormerModules(uses)
    sys.meta_path.append(modules)
    patches.on_undo(modules.remove)


class _FormerModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes removed modules that have no place in the table, when they are imported."""

    def __init__(self, uses: Uses) -> None:
        self.uses = uses
        self.made: list[str] = []

    def remove(self) -> None:
        """Take them out again."""
        sys.meta_path.remove(self)
        for name in self.made:
            module = sys.modules.pop(name, None)
            parent, _, child = name.rpartition(".")  # the import has set its attribute
            around = sys.modules.get(parent)
            if around is not None and vars(around).get(child) is module:
                delattr(around, child)

    def find_spec(
        self, fullname: str, *_other: Sequence[str] | types.ModuleType | None
    ) -> importlib.machinery.ModuleSpec | None:
        """A spec for code outside JAX that needs the module."""
        if not fullname.startswith(("jax.", "jaxlib.")) or not former.is_module(fullname):
            return None
        parent, _, child = fullname.rpartition(".")
        if child in vars(sys.modules[parent]):  # something of JAX, which an import would replace
            return None
        if not former.may_answer(sys._getframe(1)):
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """An empty module."""
        self.uses.note(spec.name)
        self.made.append(spec.name)
        return _stub(spec.name, "", {}, self.uses)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing more is to be done."""


def when_imported(name: str, patches: Patches, then: Callable[[types.ModuleType], None]) -> None:
    """Call ``then(module)``: now, if the module is imported, or else when it is."""
    if name in sys.modules:
        then(sys.modules[name])
    else:
        patches.on_undo(AfterImport(name, then).install())


def _stub(name: str, home: str, paths: dict[str, Any], uses: Uses) -> types.ModuleType:
    """A removed module: its names are looked up where they live now."""
    stub = types.ModuleType(name, f"{name}, as shardlift restores it.")
    stub.__spec__ = importlib.machinery.ModuleSpec(name, None)
    finder = _Finder(name, paths, home, uses, None)
    stub.__getattr__ = finder.find  # type: ignore[method-assign]
    return stub


@dataclasses.dataclass
class _Finder:
    """Finds an attribute that a module does not have."""

    module: str
    paths: dict[str, Any]  # of its removed names, or what stands for them
    home: str  # the module that has its other names now
    uses: Uses
    own: Callable[[str], Any] | None  # its ``__getattr__``
    values: dict[str, Any] = dataclasses.field(default_factory=dict)

    def find(self, name: str) -> Any:
        """The attribute of this name, or AttributeError."""
        if name == "__all__" and self._is_stub():  # for `from stax import *`
            at_home = dir(names.resolve(self.home)) if self.home else []
            return sorted({*self.paths, *(n for n in at_home if n[0] != "_")})
        if name.startswith("__"):
            return self._refuse(name)
        if (package := f"{self.module}.{name}") in _PACKAGES and package not in names.MODULES:
            return importlib.import_module(package)
        if name not in self.paths:
            return self._elsewhere(name)
        if name not in self.values:
            path = self.paths[name]
            value = names.resolve(path) if isinstance(path, str) else path
            ours = isinstance(path, str) and path.startswith("shardlift.")
            if ours and isinstance(value, types.FunctionType):
                value = self.uses.count_calls(value, f"{self.module}.{name}")
            self.values[name] = value
        value = self.values[name]
        if not getattr(value, "__counts_calls__", False):
            self.uses.note(f"{self.module}.{name}")
        return value

    def _is_stub(self) -> bool:
        return self.module in names.MODULES

    def _elsewhere(self, name: str) -> Any:
        """The value from the module's own ``__getattr__``, or from the module's former source."""
        try:
            return self._refuse(name)
        except AttributeError:
            value = self._former(name, sys._getframe(2))
            if value is _ABSENT:
                raise
        # A use of a removed module is noted under the module's name, not under each name in it.
        self.uses.note(self.module if self._is_stub() else f"{self.module}.{name}")
        return value

    def _former(self, name: str, caller: types.FrameType) -> Any:
        """What a name of an earlier JAX stands for now; a placeholder if for nothing."""
        if self.home and hasattr(names.resolve(self.home), name):
            return getattr(names.resolve(self.home), name)
        private = former.is_private(self.module)
        if private and not former.may_answer(caller):
            return _ABSENT
        twin = names.TWINS.get(self.module)
        if twin and hasattr(names.resolve(twin), name):
            return getattr(names.resolve(twin), name)
        path = former.ask(self.module, name)
        if path:
            with contextlib.suppress(ImportError, AttributeError):
                return names.resolve(path)
        if path is None or not (private or former.may_answer(caller)):
            return _ABSENT
        self.values[name] = self.values.get(name) or placeholder(f"{self.module}.{name}")
        return self.values[name]

    def _refuse(self, name: str) -> Any:
        if self.own is not None:
            return self.own(name)
        raise AttributeError(f"module {self.module!r} has no attribute {name!r}")
