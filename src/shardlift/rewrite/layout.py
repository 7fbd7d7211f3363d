"""How the files of a project import each other, and so by which names its folders go.

A folder does not say it: `src/` may have an `__init__.py` by mistake, a package may have none,
and a checkout may have another name than the package in it. The imports that work today do.
"""

import ast
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import PurePath

from shardlift.rewrite.helpers import written_names
from shardlift.source.import_graph import Parts, imported_module
from shardlift.source.libraries import LIBRARIES
from shardlift.source.project import Project
from shardlift.source.scopes import LOOPS, Index

_OTHERS = LIBRARIES | sys.stdlib_module_names
Exists = Callable[[str], bool]


@dataclass(frozen=True)
class Package:
    """A folder and the name by which its modules are imported.

    Without a name they are imported by their own names, as by a script beside them.
    """

    folder: str
    name: str = ""

    def contains(self, folder: str) -> bool:
        """Whether a folder is this one, or inside it."""
        return folder == self.folder or folder.startswith(f"{self.folder}{os.sep}")


class Layout:
    """The packages of a project. Files are read when they are needed."""

    def __init__(self, project: Project, exists: Exists = os.path.exists) -> None:
        """`exists` is also asked for files and folders around the project."""
        self._project, self.has = project, cache(exists)
        self.names_of = cache(self._top_names)
        self.helpers_in = cache(self._written_helpers)
        self.packages_imported = cache(self._packages_imported)

    def package_of(self, path: str) -> Package:
        """The outermost package that a file is in, or the folder that it runs in as a script."""
        folder = _folder(path)
        own = Counter(one for one, _ in self.packages_imported(path) if one.contains(folder))
        named = Counter({one: count for one, count in own.items() if one.name})
        evidence = named or own or self._by_folder.get(folder) or Counter()
        for package, _ in sorted(evidence.most_common(), key=lambda item: (-item[1], item[0].name)):
            if package.contains(folder):
                return package
        return self._by_structure(path)

    def has_modules(self, package: Package) -> bool:
        """Whether files import modules of this folder by this name, or by their own names."""
        return package in self._by_folder.get(package.folder, ())

    def modules_imported(self, path: str) -> dict[str, str]:
        """The modules of the project from which a file imports names, each as it is spelled."""
        graph, spelled = self._project.graph, dict[str, str]()
        for name in graph.imported(path):
            for module in filter(None, (name.module, ".".join(name.parts))):
                full = imported_module(path, name.level, module)
                target = graph.find(tuple(full.split(".")), path)
                if target is not None and target != path:
                    spelled[target] = f"{'.' * name.level}{module}"
        return spelled

    def is_imported(self, path: str, by: str) -> bool:
        """Whether a file is imported by another, directly or by others."""
        return by in self._project.graph.files_above(path)

    def with_helpers(self, names: Iterable[str]) -> list[str]:
        """The files that have some of these helpers, which an earlier migration wrote."""
        paths = {path for name in names for path in self._project.paths_with(f"def {name}")}
        return [path for path in sorted(paths) if not self.helpers_in(path).isdisjoint(names)]

    def is_program(self, path: str) -> bool:
        """Whether a file does something when it is run, and not only define."""
        tree = self._project.tree(path)
        return tree is not None and any(map(_is_run, tree.body))

    def absolute_imports(self, path: str) -> list[Parts]:
        """The dotted names that a file imports, with the names that it takes from modules."""
        return [one.parts for one in self._project.graph.imported(path) if not one.level]

    def level(self, path: str) -> int:
        """How many levels up the relative imports of a file go; 0 if it has none."""
        return max((one.level for one in self._project.graph.imported(path)), default=0)

    def relative_imports(self, path: str) -> int:
        """How many statements of a file, by their modules, import relatively."""
        imported = self._project.graph.imported(path)
        return len({(one.level, one.module) for one in imported if one.level})

    def _packages_imported(self, path: str) -> tuple[tuple[Package, str], ...]:
        """The packages of the project that a file imports from, each with the folder reached."""
        reached = (self._reached(parts, path) for parts in self.absolute_imports(path))
        return tuple(filter(None, reached))

    @cached_property
    def _by_folder(self) -> dict[str, Counter[Package]]:
        """For each folder, the packages by which its modules are imported, and import others."""
        found: dict[str, Counter[Package]] = defaultdict(Counter)
        for path in self._project.paths:
            folder = _folder(path)
            for package, reached in self.packages_imported(path) if path.endswith(".py") else ():
                found[reached][package] += 1
                if package.name and package.contains(folder):
                    found[folder][package] += 1
        return found

    def _reached(self, parts: Parts, path: str) -> tuple[Package, str] | None:
        """The package that an import finds, searched from the folder of the file upwards."""
        above = PurePath(os.path.abspath(path)).parents
        roots = [str(root) for folder in above for root in (folder, folder / "src")]
        for root in roots if len(parts) > 1 else ():
            top = os.path.join(root, parts[0])
            if self._has(top, parts[1]):
                return Package(top, parts[0]), self._deepest(root, parts)
        for root in roots if parts[0] not in _OTHERS else ():
            top = os.path.join(root, parts[0])
            if self.has(f"{top}.py"):
                return Package(root), root
            if parts[1:] in ((), ("*",)) and self.has(os.path.join(top, "__init__.py")):
                return Package(top, parts[0]), top
        return None

    def _has(self, folder: str, name: str) -> bool:
        """Whether a folder has a module of this name, or its `__init__.py` does."""
        inner = os.path.join(folder, name)
        if not name:
            return False
        if self.has(f"{inner}.py") or self.has(inner):
            return True
        return name in self.names_of(os.path.join(folder, "__init__.py"))

    def _top_names(self, path: str) -> frozenset[str]:
        """The names that a module binds."""
        tree = self._project.tree(path) if self.has(path) else None
        return frozenset(Index(tree).module.names) if tree is not None else frozenset()

    def _written_helpers(self, path: str) -> set[str]:
        files = self._project.files_with("def", among=(path,)) if path.endswith(".py") else ()
        return {name for file in files for name in written_names(file.source.text)}

    def _deepest(self, root: str, parts: Parts) -> str:
        folder = root
        for part in parts:
            inner = os.path.join(folder, part)
            if self.has(f"{inner}.py") or not self.has(inner):
                break
            folder = inner
        return folder

    def _by_structure(self, path: str) -> Package:
        """The outermost folder above with an `__init__.py`, where no import says otherwise.

        A folder without one in between does not end a package, nor does one of scripts that
        import another package beside it; one called `src` does.
        """
        folder = PurePath(_folder(path))
        top = folder if self._is_package(folder) else None
        reached = {os.path.dirname(o.folder) for o, _ in self.packages_imported(path) if o.name}
        for above in folder.parents:
            if not above.name.isidentifier() or above.name == "src":
                break
            if self._is_package(above) and (top or str(above.parent) in reached):
                top = above
        depth = self.level(path)
        within = (folder, *folder.parents)[depth - 1] if depth else None
        if within is not None and (top is None or top.is_relative_to(within)):
            top = within  # a relative import goes up to here
        return Package(str(top), top.name) if top else Package(str(folder))

    def _is_package(self, folder: PurePath) -> bool:
        return folder.name.isidentifier() and self.has(str(folder / "__init__.py"))


def _is_run(statement: ast.stmt) -> bool:
    """Whether a statement at the top of a module does more than define something."""
    if isinstance(statement, ast.If):
        return any(getattr(node, "id", "") == "__name__" for node in ast.walk(statement.test))
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Call)
    return isinstance(statement, (*LOOPS, ast.With))


def _folder(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))
