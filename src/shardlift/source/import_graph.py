"""The import graph: what the files of a project import, and which of them are one program.

Imports are read on syntax trees, so what a docstring shows counts for nothing. Words of the texts
only tell which files are worth parsing.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import PurePath

from shardlift.source.libraries import LIBRARIES
from shardlift.source.scopes import Import

Parts = tuple[str, ...]
# What may be an import: one statement may follow another on its line, or stand in a docstring.
_IMPORT = re.compile(r"import\b[ \t]*(\((?:[^)#]|#[^\n]*)*\)|(?:[^\n\\#;]|\\\r?\n)*)")
_FROM = re.compile(r"\bfrom[\s\\]*([.\w]+)[\s\\]*$")
_LONGEST_MODULE = 300  # characters between `from` and `import`


@dataclass(frozen=True)
class Imported:
    """One name that a file imports: `import a.b`, or `b` of `from ..a import b`."""

    module: str
    name: str = ""  # of a `from` import
    level: int = 0  # the dots of a relative one

    @property
    def parts(self) -> Parts:
        """The parts of the dotted name."""
        return tuple(part for part in (*self.module.split("."), self.name) if part)


def read_imports(tree: ast.Module) -> tuple[Imported, ...]:
    """Every import of a file, wherever it stands."""
    return tuple(
        Imported(statement.module or "", alias.name, statement.level)
        if isinstance(statement, ast.ImportFrom)
        else Imported(alias.name)
        for statement in _import_statements(tree.body)
        for alias in statement.names
    )


def _import_statements(body: Iterable[ast.AST]) -> Iterator[Import]:
    for statement in body:
        if isinstance(statement, Import):
            yield statement
        for block in ("body", "handlers", "cases", "orelse", "finalbody"):
            inner = getattr(statement, block, ())
            if isinstance(inner, list):
                yield from _import_statements(inner)


def module_parts(path: str) -> tuple[str, ...]:
    """The module name of a path: `src/pkg/mod.py` is `("src", "pkg", "mod")`."""
    pure = PurePath(path)
    if pure.suffix != ".py":
        return ()
    parts = tuple(part for part in pure.with_suffix("").parts if part not in ("/", ".", ".."))
    return parts[:-1] if parts and parts[-1] == "__init__" else parts


def imported_module(path: str, level: int, module: str) -> str:
    """The absolute name of the module that a `from` import in a file names."""
    if not level:
        return module
    here = module_parts(path)
    drop = level - path.endswith("__init__.py")
    package = here[: len(here) - drop] if drop else here
    return ".".join((*package, module)) if module else ".".join(package)


class ImportGraph:
    """Who imports whom among the files of a project."""

    def __init__(
        self,
        paths: Iterable[str],
        text: Callable[[str], str],
        tree: Callable[[str], ast.Module | None],
    ) -> None:
        """`text` gives the text of a path, `tree` its tree; empty and None if there is none."""
        self._paths, self._text, self._tree = tuple(paths), text, tree
        self._imported: dict[str, tuple[Imported, ...]] = {}
        self._above: dict[str, dict[str, str]] = {}
        self._by_name: dict[str, list[tuple[Parts, str]]] = defaultdict(list)
        for path in self._paths:
            parts = module_parts(path)
            if parts:
                self._by_name[parts[-1]].append((parts, path))

    def imported(self, path: str) -> tuple[Imported, ...]:
        """What a file imports; nothing if it cannot be parsed."""
        if path not in self._imported:
            tree = self._tree(path)
            self._imported[path] = read_imports(tree) if tree is not None else ()
        return self._imported[path]

    def targets(self, path: str) -> set[str]:
        """The files of the project that a file imports."""
        return self._targets(path, self.imported(path))

    def importers(self, path: str) -> list[str]:
        """The files of the project that import a file."""
        return [other for other in self._importers[path] if path in self.targets(other)]

    def find(self, parts: Parts, near: str) -> str | None:
        """The path of the module that an import in the file `near` refers to."""
        if not parts or parts[0] in LIBRARIES:
            return None
        named = self._by_name.get(parts[-1], ())
        matches = [(full, path) for full, path in named if full[-len(parts) :] == parts]
        if len(matches) < 2:
            return matches[0][1] if matches else None
        home = module_parts(near)
        ranked = sorted((-_common(full, home), len(full), path) for full, path in matches)
        # If two files fit equally well, neither is chosen.
        return ranked[0][2] if ranked[0][:2] != ranked[1][:2] else None

    def is_same_program(self, one: str, other: str) -> bool:
        """Whether some file imports both, directly or by other files, or one imports the other.

        Most files are never parsed for this: only those on a way that the texts let hope for.
        """
        while True:
            first, second = self._files_above(one), self._files_above(other)
            top = next((path for path in first if path in second), None)
            if top is None:
                return False
            ways = (path for below in (first, second) for path in _way_down(top, below))
            unread = [path for path in (top, *ways) if path not in self._imported]
            if not unread:
                return True
            for path in unread:
                self._read(path)

    def _files_above(self, path: str) -> dict[str, str]:
        """A file and all that may import it, each with the next file on its way there."""
        if path not in self._above:
            reached, waiting = {path: path}, [path]
            for below in waiting:
                for importer in self._importers[below]:
                    if importer not in reached:
                        reached[importer] = below
                        waiting.append(importer)
            self._above[path] = reached
        return self._above[path]

    @cached_property
    def _importers(self) -> defaultdict[str, dict[str, None]]:
        """The files that import each file, or may do so by their texts."""
        importers: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for path in self._paths:
            for target in self._targets(path, _possible_imports(self._text(path))):
                importers[target][path] = None
        return importers

    def _read(self, path: str) -> None:
        """Keep the imports that the syntax tree of a file has, of all that its text may contain."""
        real = self.targets(path)
        for target, importers in self._importers.items():
            if path in importers and target not in real:
                del importers[path]
                self._above.clear()

    def _targets(self, path: str, imports: Iterable[Imported]) -> set[str]:
        """The files of the project among what a file imports."""
        targets: set[str | None] = set()
        for imported in imports:
            module = imported_module(path, imported.level, imported.module)
            parts = Imported(module, imported.name).parts
            targets |= {self.find(parts, path), self.find(parts[:-1], path)}
        return {target for target in targets if target is not None and target != path}


def _common(first: Parts, second: Parts) -> int:
    """The number of leading parts that two module names have in common."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _way_down(top: str, below: Mapping[str, str]) -> Iterator[str]:
    """The files on the way from a file to one that it imports, without that one."""
    while below[top] != top:
        yield top
        top = below[top]


def _possible_imports(text: str) -> Iterator[Imported]:
    """What a text may import: all that it does, and what only looks like an import."""
    for match in _IMPORT.finditer(text):
        before = _FROM.search(text, max(0, match.start() - _LONGEST_MODULE), match.start())
        dotted = before[1] if before else ""
        module = dotted.lstrip(".")
        for name in re.findall(r"[\w.]+", match[1]):
            yield Imported(module, name, len(dotted) - len(module)) if before else Imported(name)
