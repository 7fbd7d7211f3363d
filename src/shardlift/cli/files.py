"""Finding the files to look at: what .gitignore leaves out is left out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

SUFFIXES = (".py", ".ipynb")
# Other people's code, and copies of our own.
_NEVER = {".venv", "venv", "node_modules", ".tox", ".nox", ".eggs", ".ipynb_checkpoints"}
_NOT_CODE = {".git", ".hg", ".svn", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}


def find_files(paths: tuple[str, ...], skipped: list[str] | None = None) -> Iterator[str]:
    """Every .py and .ipynb under the paths, in order, once; a file that is named always counts.

    What is left out, folders as a whole, is added to `skipped`.
    """
    skipped = [] if skipped is None else skipped
    seen: set[str] = set()
    for path in paths:
        for found in [path] if os.path.isfile(path) else _walk(Path(path), skipped):
            key = os.path.normpath(found)
            if key not in seen:
                seen.add(key)
                yield key


def _walk(root: Path, skipped: list[str]) -> Iterator[str]:
    outer = [_Ignore(folder) for folder in _parents_in_repository(root)]
    yield from _walk_folder(root, outer, skipped)


def _walk_folder(folder: Path, outer: list[_Ignore], skipped: list[str]) -> Iterator[str]:
    rules = [*outer, _Ignore(folder)] if (folder / ".gitignore").is_file() else outer
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name in _NOT_CODE or not (is_folder or entry.name.endswith(SUFFIXES)):
            continue
        if entry.name in _NEVER or _ignored(rules, Path(entry.path), is_folder):
            skipped.append(os.path.normpath(entry.path))
        elif is_folder:
            yield from _walk_folder(Path(entry.path), rules, skipped)
        elif entry.is_file():
            yield entry.path


def _parents_in_repository(root: Path) -> list[Path]:
    """The folders above, up to the repository's own, whose .gitignore counts here too."""
    found: list[Path] = []
    here = root.resolve()
    for folder in here.parents if not (here / ".git").exists() else ():
        found.append(folder)
        if (folder / ".git").exists():
            return list(reversed(found))
    return []


def _ignored(rules: list[_Ignore], path: Path, is_folder: bool) -> bool:
    verdict = False
    for rule in rules:
        verdict = rule.decide(path, is_folder, verdict)
    return verdict


class _Ignore:
    """The patterns of one .gitignore."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    @cached_property
    def patterns(self) -> list[tuple[bool, bool, re.Pattern[str]]]:
        try:
            lines = (self.folder / ".gitignore").read_text(errors="replace").splitlines()
        except OSError:
            return []
        return [parsed for line in lines if (parsed := _parse(line))]

    def decide(self, path: Path, is_folder: bool, verdict: bool) -> bool:
        """The verdict after these patterns: the last one that matches wins."""
        if not self.patterns:
            return verdict
        full = path.parent.resolve() / path.name
        relative = full.relative_to(self.folder).as_posix()
        for negated, folders_only, pattern in self.patterns:
            if (is_folder or not folders_only) and pattern.fullmatch(relative):
                verdict = not negated
        return verdict


def _parse(line: str) -> tuple[bool, bool, re.Pattern[str]] | None:
    """A line of a .gitignore: negated, folders only, and what it matches."""
    line = line.rstrip()
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line[negated:].removeprefix("\\")
    folders_only = line.endswith("/")
    line = line.rstrip("/")
    anchored = "/" in line
    line = line.lstrip("/")
    prefix = "" if anchored else "(?:.*/)?"
    return negated, folders_only, re.compile(prefix + _glob(line))


def _glob(pattern: str) -> str:
    result, index = "", 0
    while index < len(pattern):
        if pattern.startswith("**/", index):
            result, index = result + "(?:.*/)?", index + 3
        elif pattern.startswith("**", index):
            result, index = result + ".*", index + 2
        elif pattern[index] == "[" and "]" in pattern[index + 2 :]:
            close = pattern.index("]", index + 2)
            inner = pattern[index + 1 : close].replace("\\", "\\\\")
            inner = "^" + inner[1:] if inner.startswith("!") else inner
            result, index = f"{result}[{inner}]", close + 1
        else:
            character = pattern[index]
            result += {"*": "[^/]*", "?": "[^/]"}.get(character, re.escape(character))
            index += 1
    return result
