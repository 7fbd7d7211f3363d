"""The files that are analysed together, and how imports between them are resolved."""

from __future__ import annotations

import ast
import copy
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from pathlib import PurePath
from typing import Any

from shardlift.source.file import File
from shardlift.source.import_graph import ImportGraph
from shardlift.source.processes import Evidence, evidence_in, may_be_evidence
from shardlift.source.scopes import Index
from shardlift.source.settings import Settings
from shardlift.source.text import Source, UnreadableError, parse_source
from shardlift.source.values import Value

_UNREADABLE = (UnreadableError, OSError, KeyError, RecursionError, MemoryError)
_TESTS = re.compile(r"test_|.*_test$|conftest$")


def is_test(path: str) -> bool:
    """Whether a file is a test, by its name or its folder."""
    pure = PurePath(path)
    return bool(_TESTS.match(pure.stem) or {"test", "tests"} & set(pure.parts))


class Project:
    """A set of files. Each is read and parsed when it is first needed.

    What is found about one file must not depend on which others were looked at before. Values that
    are resolved in a circle or very deep do, so each file is looked at in a `fresh` project.
    """

    def __init__(
        self, paths: Iterable[str], read: Callable[[str], Source], settings: Settings = Settings()
    ) -> None:
        """Create a project of `paths`; `read` is called for the files that are needed."""
        self.paths = tuple(sorted(paths, key=PurePath))
        self._known, self._read = frozenset(self.paths), read
        self.settings = settings
        self._whole = self  # keeps what is found about all files
        self._files: dict[str, File] = {}
        self._trees: dict[str, tuple[Source, Index] | None] = {}
        self._texts: dict[str, str] = {}
        self._evidence_of: dict[str, Evidence | None] = {}
        # What is found about all files, by the function that finds it.
        self.memo: dict[object, Any] = {}
        self.graph = ImportGraph(self.paths, self._text)

    @classmethod
    def of(cls, *sources: Source, settings: Settings = Settings()) -> Project:
        """A project of texts that are already in memory."""
        texts = {source.path: source for source in sources}
        return cls(texts, texts.__getitem__, settings)

    def has_many_processes(self, path: str) -> bool:
        """Whether several processes run the program of a file, by the settings or its files."""
        if self.settings.many_processes is not None:
            return self.settings.many_processes
        evidence = self._whole.process_evidence(path)
        return evidence is not None and evidence.many

    def process_evidence(self, path: str) -> Evidence | None:
        """The line that decides how many processes run the program of a file.

        A program consists of the files that import each other, directly or by another file. Where
        they show nothing, what shows many processes elsewhere in the package counts: it may get
        the file by its name.
        """
        if path not in self._evidence_of:  # rules ask again and again
            evidence = [e for e in self._evidence if e.path == path]
            if not path.endswith(".ipynb"):  # however the modules that it imports are run elsewhere
                same = self.graph.is_same_program
                evidence = [e for e in self._evidence if same(path, e.path)]
                package = self.package(path)
                evidence = evidence or [
                    e for e in self._evidence if e.many and self.package(e.path) == package
                ]
            first = min(evidence, key=lambda e: (e.many, e.path != path, e.path), default=None)
            self._evidence_of[path] = first
        return self._evidence_of[path]

    def package(self, path: str) -> str:
        """The folder of the outermost package that a file is in, or the folder of a script."""
        folder = os.path.dirname(path)
        while folder and os.path.join(os.path.dirname(folder), "__init__.py") in self._known:
            folder = os.path.dirname(folder)
        return folder

    @cached_property
    def _evidence(self) -> list[Evidence]:
        fresh = self.fresh()
        evidence = list(filter(None, map(evidence_in, fresh.files_where(may_be_evidence))))
        fresh.close()
        return evidence

    def is_module(self, path: str, besides: frozenset[str]) -> bool:
        """Whether a file is part of a package, or another file imports it, besides some."""
        init = os.path.join(os.path.dirname(path), "__init__.py")
        return init in self._known or not besides.issuperset(self.graph.importers(path))

    def fresh(self) -> Project:
        """The same files, parsed once for both, with nothing resolved yet."""
        fresh = copy.copy(self)
        fresh._files = {}
        return fresh

    def close(self) -> None:
        """Forget what was resolved; the files of this project must not be used any more.

        Files and values refer to each other: without this, they live until the garbage collector
        has looked at every node of every tree.
        """
        for file in self._files.values():
            vars(file.resolver).clear()
            vars(file).clear()
        self._files.clear()

    def file(self, path: str, source: Source | None = None) -> File:
        """The parsed file. Raises an error if it cannot be read or parsed."""
        if path not in self._files:
            tree = self._trees.get(path)
            if tree is None:
                source = source or self._read(path)
                tree = self._trees[path] = source, Index(parse_source(source))
            self._files[path] = File(tree[0], self, tree[1])
        return self._files[path]

    def tree(self, path: str) -> ast.Module | None:
        """The syntax tree of a file; None if it cannot be read or parsed."""
        if known := self._trees.get(path):
            return known[1].root
        try:
            return parse_source(Source(path, self._text(path)))
        except _UNREADABLE:
            return None

    def trim(self, most: int = 3_000_000) -> bool:
        """Drop all parsed files if they have more than `most` characters; True if so.

        Texts are small beside trees: they are kept up to ten times as many.
        """
        trees = [tree for tree in self._trees.values() if tree is not None]
        if sum(len(source.text) for source, _ in trees) < most:
            return False
        self.close()
        self._trees.clear()
        if sum(map(len, self._texts.values())) > 10 * most:
            self._texts.clear()
        return True

    def has_module(self, parts: tuple[str, ...], near: str) -> bool:
        """Whether a dotted name is a module of the project."""
        return self.graph.find(parts, near) is not None

    def module(self, parts: tuple[str, ...], near: str) -> File | None:
        """The file of a module, if it is part of the project and can be read."""
        path = self.graph.find(parts, near)
        return self._open(path) if path is not None else None

    def exported(self, parts: tuple[str, ...], name: str, near: str) -> tuple[Value, ...]:
        """The values of a name of a module; empty if there is no such module or name."""
        path = self.graph.find(parts, near)
        text = self._text(path) if path is not None and path != near else ""
        if path is None or not (name in text or "import *" in text):
            return ()
        module = self._open(path)
        return module.exported(name) if module is not None else ()

    def files_with(self, name: str, among: Collection[str] | None = None) -> Iterator[File]:
        """The files whose texts have a name, as far as they can be read; of some paths, or all."""
        return filter(None, map(self._open, self.paths_with(name, among)))

    def paths_with(self, name: str, among: Collection[str] | None = None) -> Iterator[str]:
        """The files whose texts have a name: none is parsed."""
        word = re.compile(rf"{name}(?<=\b{name})\b")  # quick, as it begins with fixed letters
        for path in self.paths if among is None else sorted(among, key=PurePath):
            text = self._text(path)
            if name in text and word.search(text):
                yield path

    def files_where(self, test: Callable[[str], object]) -> Iterator[File]:
        """The files whose texts pass a test, as far as they can be read."""
        passed = (path for path in self.paths if test(self._text(path)))
        return filter(None, map(self._open, passed))

    def _text(self, path: str) -> str:
        """The text of a file; empty if it cannot be read."""
        if path not in self._texts:
            try:
                self._texts[path] = self._read(path).text
            except _UNREADABLE:
                self._texts[path] = ""
        return self._texts[path]

    def _open(self, path: str) -> File | None:
        if path in self._trees and self._trees[path] is None:
            return None
        try:
            return self.file(path)
        except _UNREADABLE:
            self._trees[path] = None
            return None
