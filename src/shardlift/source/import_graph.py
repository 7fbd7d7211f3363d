"""The import graph: what the files of a project import, and which of them are one program.

Imports are read from the texts, so no file is parsed for them; what a comment or a docstring shows
counts for nothing.
"""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cache, cached_property
from itertools import takewhile
from typing import NamedTuple

from shardlift.source.libraries import LIBRARIES

Parts = tuple[str, ...]
# Comments, strings, and line ends that do not end a statement.
_NO_CODE = re.compile(
    r"#[^\n]*"
    r'|"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'
    r"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
    r'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
    r"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'"
    r"|\\\r?\n",
    re.DOTALL,
)
# A word that begins with fixed letters is found quickly; then what is before it is looked at.
_IMPORT = re.compile(r"import\b[ \t]*(\([^)]*\)|[^\n;]*)")
_FROM = re.compile(r"(?:.*[;:])?[ \t\f]*(?:from[ \t]*([.\w]+)[ \t]*)?")
_LONGEST_FROM = 999


class Imported(NamedTuple):
    """One name that a file imports: `import a.b`, or `b` of `from ..a import b`."""

    module: str
    name: str = ""  # of a `from` import
    level: int = 0  # the dots of a relative one

    @property
    def parts(self) -> Parts:
        """The parts of the dotted name."""
        return tuple(part for part in (*self.module.split("."), self.name) if part)


def read_imports(text: str) -> Iterator[Imported]:
    """Every import of a text, wherever it stands."""
    code = _NO_CODE.sub(" ", text)
    for match in _IMPORT.finditer(code):
        at = match.start()
        before = _FROM.fullmatch(code, max(code.rfind("\n", 0, at) + 1, at - _LONGEST_FROM), at)
        if before is None:
            continue
        dotted = before[1] or ""
        module = dotted.lstrip(".")
        for listed in match[1].strip("()").split(","):
            for name in listed.split()[:1]:  # without its `as`
                relative = module, name, len(dotted) - len(module)
                yield Imported(*relative) if dotted else Imported(name)


@cache
def module_parts(path: str) -> tuple[str, ...]:
    """The module name of a path: `src/pkg/mod.py` is `("src", "pkg", "mod")`."""
    if not path.endswith(".py"):
        return ()
    listed = path.removesuffix(".py").replace(os.sep, "/").split("/")
    parts = tuple(part for part in listed if part not in ("", ".", ".."))
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

    def __init__(self, paths: Iterable[str], text: Callable[[str], str]) -> None:
        """`text` gives the text of a path, empty if there is none."""
        self._paths, self._text = tuple(paths), text
        self._imported: dict[str, tuple[Imported, ...]] = {}
        self._above: dict[str, frozenset[str]] = {}
        self._by_name: dict[str, list[tuple[Parts, str]]] = defaultdict(list)
        for path in self._paths:
            if parts := module_parts(path):
                self._by_name[parts[-1]].append((parts, path))

    def imported(self, path: str) -> tuple[Imported, ...]:
        """What a file imports."""
        if path not in self._imported:
            self._imported[path] = tuple(read_imports(self._text(path)))
        return self._imported[path]

    def targets(self, path: str) -> set[str]:
        """The files of the project that a file imports."""
        targets: set[str | None] = set()
        for imported in self.imported(path):
            module = imported_module(path, imported.level, imported.module)
            parts = Imported(module, imported.name).parts
            targets |= {self.find(parts, path), self.find(parts[:-1], path)}
        return {target for target in targets if target is not None and target != path}

    def importers(self, path: str) -> list[str]:
        """The files of the project that import a file."""
        return self._importers[path]

    @cached_property
    def _importers(self) -> dict[str, list[str]]:
        importers: dict[str, list[str]] = {path: [] for path in self._paths}
        for path in self._paths:
            for target in self.targets(path):
                importers[target].append(path)
        return importers

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

    def is_same_program(self, first: str, other: str) -> bool:
        """Whether some file imports both, directly or by other files, or one imports the other."""
        return not self.files_above(first).isdisjoint(self.files_above(other))

    def files_above(self, path: str) -> frozenset[str]:
        """A file and all that import it, directly or by other files."""
        if path not in self._above:
            reached, waiting = {path}, [path]
            for below in waiting:
                further = {*self._importers[below]} - reached
                reached |= further
                waiting += further
            self._above[path] = frozenset(reached)
        return self._above[path]


def _common(first: Parts, second: Parts) -> int:
    """The number of leading parts that two module names have in common."""
    pairs = zip(first, second, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
