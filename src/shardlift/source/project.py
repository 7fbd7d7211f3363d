"""The files that are looked at together, and how an import finds its way from one to another."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import cached_property

from shardlift.source.file import File
from shardlift.source.modules import LIBRARIES, module_parts
from shardlift.source.processes import is_for_many, may_be_for_many
from shardlift.source.settings import Settings
from shardlift.source.text import Source, UnreadableError
from shardlift.source.values import Value

# What the resolver follows into another file: pmap, first replicas, counts of devices.
_MATTERS = re.compile(r"pmap|Parallel|device_count|devices\(|tree_?\.?map[^\n]*\n?[^\n]*\[0\]")

_UNREADABLE = (UnreadableError, OSError, KeyError, RecursionError, MemoryError)


class Project:
    """Reads a file when it is first asked for, and keeps what it parsed."""

    def __init__(
        self,
        paths: Iterable[str],
        read: Callable[[str], Source],
        settings: Settings = Settings(),
    ) -> None:
        """`paths` is what imports may find; `read` is called for those that are needed."""
        self._paths = tuple(paths)
        self._read = read
        self.settings = settings
        self._files: dict[str, File | None] = {}
        self._texts: dict[str, str] = {}
        self._by_name: dict[str, list[tuple[tuple[str, ...], str]]] = defaultdict(list)
        for path in self._paths:
            parts = module_parts(path)
            if parts:
                self._by_name[parts[-1]].append((parts, path))

    @classmethod
    def of(cls, *sources: Source, settings: Settings = Settings()) -> Project:
        """A project of texts that are already at hand."""
        texts = {source.path: source for source in sources}
        return cls(texts, texts.__getitem__, settings)

    @cached_property
    def many_processes(self) -> bool:
        """Whether the settings, or any of the files, say that several processes run it."""
        if self.settings.many_processes is not None:
            return self.settings.many_processes
        return any(self._is_for_many_processes(path) for path in self._paths)

    def _is_for_many_processes(self, path: str) -> bool:
        known = self._files.get(path)
        if known is None and not may_be_for_many(self._text(path)):
            return False
        file = self._open(path)
        return file is not None and is_for_many(file)

    def file(self, path: str, source: Source | None = None) -> File:
        """The parsed file; raises what its reading raised."""
        found = self._files.get(path)
        if found is None:
            found = File(source or self._read(path), self)
            self._files[path] = found
        return found

    def trim(self, most: int = 3_000_000) -> bool:
        """Drop what was parsed once there is much of it (in characters); True if it was."""
        sizes = (len(file.source.text) for file in self._files.values() if file is not None)
        if sum(sizes) < most:
            return False
        self._files.clear()
        self._texts.clear()
        return True

    def has_module(self, parts: tuple[str, ...], near: str) -> bool:
        """Whether a dotted name is a module among the files."""
        return self._find(parts, near) is not None

    def module(self, parts: tuple[str, ...], near: str) -> File | None:
        """The file of a dotted module name, if it is among the files and can be read."""
        path = self._find(parts, near)
        return self._open(path) if path is not None else None

    def exported(self, parts: tuple[str, ...], name: str, near: str) -> tuple[Value, ...]:
        """What a name of a module stands for; nothing if there is no such module or name."""
        path = self._find(parts, near)
        if path is None or path == near or not self._may_matter(path, name):
            return ()
        module = self._open(path)
        return module.exported(name) if module is not None else ()

    def is_matched_elsewhere(self, pattern: re.Pattern[str], path: str) -> bool:
        """Whether a pattern is found in any of the files but one."""
        return any(pattern.search(self._text(other)) for other in self._paths if other != path)

    def _find(self, parts: tuple[str, ...], near: str) -> str | None:
        """The file of a dotted module name, as an import in the file `near` would mean it."""
        if not parts or parts[0] in LIBRARIES:
            return None
        matches = [
            (full, path) for full, path in self._by_name.get(parts[-1], ()) if _ends(full, parts)
        ]
        if len(matches) < 2:
            return matches[0][1] if matches else None
        home = module_parts(near)
        ranked = sorted(matches, key=lambda item: (-_common(item[0], home), len(item[0])))
        if _same_rank(ranked[0][0], ranked[1][0], home):
            return None  # two files fit equally well: leave it alone
        return ranked[0][1]

    def _may_matter(self, path: str, name: str) -> bool:
        """Whether a file is worth parsing for a name: it has to do with pmap, or passes it on."""
        if path in self._files:
            return True
        text = self._text(path)
        if name not in text:
            return "import *" in text
        return bool(_MATTERS.search(text)) or bool(
            re.search(rf"import (?:\([^)]*|[^\n(]*)\b{re.escape(name)}\b", text)
        )

    def _text(self, path: str) -> str:
        """The text of a file; nothing if it cannot be read."""
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


def _ends(full: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    return full[-len(parts) :] == parts


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count


def _same_rank(one: tuple[str, ...], other: tuple[str, ...], home: tuple[str, ...]) -> bool:
    return _common(one, home) == _common(other, home) and len(one) == len(other)
