"""The files that are analysed together, and how imports between them are resolved."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import takewhile

from shardlift.source.file import File
from shardlift.source.modules import LIBRARIES, module_parts
from shardlift.source.processes import (
    Evidence,
    evidence_in,
    imported_modules,
    may_be_evidence,
)
from shardlift.source.settings import Settings
from shardlift.source.text import Source, UnreadableError
from shardlift.source.values import Value

# What the resolver follows into other files: pmap, first replicas, device counts.
_MATTERS = re.compile(r"pmap|Parallel|device_count|devices\(|tree_?\.?map[^\n]*\n?[^\n]*\[0\]")

# Functions that share keywords with pmap.
_OTHER_TRANSFORMS = frozenset(
    {"vmap", "jit", "pjit", "xmap", "shard_map", "scan", "remat", "checkpoint", "filter_vmap"}
    | {"device_put_sharded", "device_put_replicated", "replicate", "prefetch_to_device"}
)

_UNREADABLE = (UnreadableError, OSError, KeyError, RecursionError, MemoryError)


class Project:
    """A set of files. Each is read and parsed when it is first needed."""

    def __init__(
        self,
        paths: Iterable[str],
        read: Callable[[str], Source],
        settings: Settings = Settings(),
    ) -> None:
        """Create a project of `paths`; `read` is called for the files that are needed."""
        self._paths = tuple(paths)
        self._read = read
        self.settings = settings
        self._files: dict[str, File | None] = {}
        self._texts: dict[str, str] = {}
        self._keywords: dict[str, bool] = {}
        self._evidence_of: dict[str, Evidence | None] = {}
        self._importers_of: dict[str, set[str]] = {}
        self._by_name: dict[str, list[tuple[tuple[str, ...], str]]] = defaultdict(list)
        for path in self._paths:
            parts = module_parts(path)
            if parts:
                self._by_name[parts[-1]].append((parts, path))

    @classmethod
    def of(cls, *sources: Source, settings: Settings = Settings()) -> Project:
        """A project of texts that are already in memory."""
        texts = {source.path: source for source in sources}
        return cls(texts, texts.__getitem__, settings)

    def has_many_processes(self, path: str) -> bool:
        """Whether several processes run the program of a file, by the settings or its files."""
        if self.settings.many_processes is not None:
            return self.settings.many_processes
        evidence = self.process_evidence(path)
        return evidence is not None and evidence.many

    def process_evidence(self, path: str) -> Evidence | None:
        """The line that decides how many processes run the program of a file.

        A program consists of the files that import each other, directly or by another file.
        """
        if path not in self._evidence_of:  # rules ask again and again
            evidence = [e for e in self._evidence if self._is_same_program(path, e.path)]
            first = min(evidence, key=lambda e: (e.many, e.path != path, e.path), default=None)
            self._evidence_of[path] = first
        return self._evidence_of[path]

    @cached_property
    def _evidence(self) -> list[Evidence]:
        paths = (path for path in self._paths if may_be_evidence(self._text(path)))
        files = (self._open(path) for path in paths)
        evidence = (evidence_in(file) for file in files if file is not None)
        return [line for line in evidence if line is not None]

    def _is_same_program(self, one: str, other: str) -> bool:
        if one.endswith(".ipynb"):  # however the modules that it imports are run elsewhere
            return one == other
        return not self._importers(one).isdisjoint(self._importers(other))

    def _importers(self, path: str) -> set[str]:
        """A file, and all files that import it, directly or not."""
        if path not in self._importers_of:
            reached, waiting = {path}, [path]
            while waiting:
                new = self._imported_by.get(waiting.pop(), set()) - reached
                reached |= new
                waiting += new
            self._importers_of[path] = reached
        return self._importers_of[path]

    @cached_property
    def _imported_by(self) -> dict[str, set[str]]:
        importers: dict[str, set[str]] = defaultdict(set)
        for path in self._paths:
            for imported in self._imports(path):
                importers[imported].add(path)
        return importers

    def _imports(self, path: str) -> set[str]:
        paths = {self._find(parts, path) for parts in imported_modules(self._text(path))}
        return {found for found in paths if found is not None and found != path}

    def file(self, path: str, source: Source | None = None) -> File:
        """The parsed file. Raises an error if it cannot be read or parsed."""
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = File(source or self._read(path), self)
        return file

    def trim(self, most: int = 3_000_000) -> bool:
        """Drop all parsed files if they have more than `most` characters; True if so."""
        sizes = (len(file.source.text) for file in self._files.values() if file is not None)
        if sum(sizes) < most:
            return False
        self._files.clear()
        self._texts.clear()
        return True

    def has_module(self, parts: tuple[str, ...], near: str) -> bool:
        """Whether a dotted name is a module of the project."""
        return self._find(parts, near) is not None

    def has_package(self, name: str) -> bool:
        """Whether the files are those of a library itself."""
        return any(full[-1:] == (name,) for full, path in self._by_name.get(name, ()))

    def module(self, parts: tuple[str, ...], near: str) -> File | None:
        """The file of a module, if it is part of the project and can be read."""
        path = self._find(parts, near)
        return self._open(path) if path is not None else None

    def exported(self, parts: tuple[str, ...], name: str, near: str) -> tuple[Value, ...]:
        """The values of a name of a module; empty if there is no such module or name."""
        path = self._find(parts, near)
        if path is None or path == near or not self._may_matter(path, name):
            return ()
        module = self._open(path)
        return module.exported(name) if module is not None else ()

    def files_with(self, name: str) -> Iterator[File]:
        """The files whose texts have a name, as far as they can be read."""
        word = re.compile(rf"\b{re.escape(name)}\b")
        for path in self._paths:
            file = self._open(path) if word.search(self._text(path)) else None
            if file is not None:
                yield file

    def has_keyword(self, name: str) -> bool:
        """Whether any file may pass an argument of this name to pmap, or has it as a string.

        A call of another transformation, such as `jax.vmap(f, in_axes=1)`, does not.
        """
        if name not in self._keywords:
            self._keywords[name] = any(_passes(file, name) for file in self.files_with(name))
        return self._keywords[name]

    def has_method_call(self, name: str) -> bool:
        """Whether any file calls a method of this name with arguments."""
        if (key := f".{name}(") not in self._keywords:
            pattern = re.compile(rf"\.{name}\(\s*[^)\s]")
            self._keywords[key] = any(pattern.search(self._text(path)) for path in self._paths)
        return self._keywords[key]

    def is_matched_elsewhere(self, pattern: re.Pattern[str], path: str) -> bool:
        """Whether a pattern occurs in any file except one."""
        return any(pattern.search(self._text(other)) for other in self._paths if other != path)

    def _find(self, parts: tuple[str, ...], near: str) -> str | None:
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

    def _may_matter(self, path: str, name: str) -> bool:
        """Whether a file is worth parsing for a name: it uses pmap, or imports the name."""
        if path in self._files:
            return True
        text = self._text(path)
        if name not in text:
            return "import *" in text
        return bool(_MATTERS.search(text)) or bool(
            re.search(rf"import (?:\([^)]*|[^\n(]*)\b{re.escape(name)}\b", text)
        )

    def _text(self, path: str) -> str:
        """The text of a file; empty if it cannot be read."""
        if path not in self._texts:
            try:
                self._texts[path] = self._read(path).text
            except _UNREADABLE:
                self._texts[path] = ""
        return self._texts[path]

    def _open(self, path: str) -> File | None:
        if path not in self._files:
            try:
                self.file(path)
            except _UNREADABLE:
                self._files[path] = None
        return self._files[path]


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """The number of leading parts that two module names have in common."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _passes(file: File, name: str) -> bool:
    if any(node.value == name for node in file.index.nodes(ast.Constant)):
        return True
    calls = [c for c in file.index.nodes(ast.Call) if any(k.arg == name for k in c.keywords)]
    return any(_may_be_pmap(file, call) for call in calls)


def _may_be_pmap(file: File, call: ast.Call) -> bool:
    path, name = file.called(call) or "", _last_name(call)
    return name not in _OTHER_TRANSFORMS and (name == "pmap" or not path.startswith("jax."))


def _last_name(call: ast.Call) -> str | None:
    """The last part of the name of what is called, or of what a partial calls."""
    function = call.func
    name = getattr(function, "attr", None) or getattr(function, "id", None)
    if name == "partial" and call.args:
        return getattr(call.args[0], "attr", None) or getattr(call.args[0], "id", None)
    return name
