"""Find the files to look at, without those that .gitignore names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from shardlift.cli.ignore import IgnorePattern, decide, parse_patterns
from shardlift.cli.input_files import read_bytes, reason

SUFFIXES = (".py", ".ipynb")
# Vendored code, and copies of the project's own.
_NEVER = {".venv", "venv", "node_modules", ".tox", ".nox", ".eggs", ".ipynb_checkpoints"}
_NOT_CODE = {".git", ".hg", ".svn", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}


@dataclass
class Passed:
    """What was passed over: on purpose, or because it could not be read."""

    skipped: list[str] = field(default_factory=list)  # files and whole folders
    failed: list[tuple[str, str]] = field(default_factory=list)  # with the reason


def find_files(
    paths: tuple[str, ...], passed: Passed | None = None, suffixes: tuple[str, ...] = SUFFIXES
) -> Iterator[str]:
    """Every .py and .ipynb file (or with other suffixes) under the paths, in order, once.

    A file that is named itself is always included.
    """
    passed = passed or Passed()
    seen: set[str] = set()
    for path in paths:
        is_folder = os.path.isdir(path)
        named = [path] if path.endswith(suffixes) or suffixes is SUFFIXES else []
        for file in _walk(Path(path), passed, suffixes) if is_folder else named:
            key = os.path.normpath(file)
            if key not in seen:
                seen.add(key)
                yield key


def _walk(root: Path, passed: Passed, suffixes: tuple[str, ...]) -> Iterator[str]:
    # A list of folders instead of recursion: a tree may be deeper than Python's call stack.
    waiting: list[tuple[str, list[_Ignore] | None]]
    waiting = [(str(root), [_Ignore(folder) for folder in _parents_in_repository(root)])]
    while waiting:
        path, rules = waiting.pop()
        if rules is None:
            yield path
        else:
            waiting += reversed(_inside(path, rules, passed, suffixes))


def _inside(
    folder: str, outer: list[_Ignore], passed: Passed, suffixes: tuple[str, ...]
) -> list[tuple[str, list[_Ignore] | None]]:
    """The wanted files and folders of a folder, in order; folders with their ignore rules."""
    has_rules = os.path.isfile(os.path.join(folder, ".gitignore"))
    rules = [*outer, _Ignore(Path(folder))] if has_rules else outer
    try:
        with os.scandir(folder) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except OSError as error:
        passed.failed.append((os.path.normpath(folder), reason(error)))
        return []
    wanted: list[tuple[str, list[_Ignore] | None]] = []
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name in _NOT_CODE or not (is_folder or entry.name.endswith(suffixes)):
            continue
        # Not files: pipes, devices, and symlinks that dangle, loop or lead to a folder.
        is_file = not is_folder and os.path.isfile(entry.path)
        ignored = entry.name in _NEVER or _is_ignored(rules, Path(entry.path), is_folder)
        if ignored or not (is_folder or is_file):
            passed.skipped.append(os.path.normpath(entry.path))
        else:
            wanted.append((entry.path, rules if is_folder else None))
    return wanted


def _parents_in_repository(root: Path) -> list[Path]:
    """The folders above, up to the root of the repository, whose .gitignore counts here too."""
    above: list[Path] = []
    here = root.resolve()
    for folder in here.parents if not (here / ".git").exists() else ():
        above.append(folder)
        if (folder / ".git").exists():
            return list(reversed(above))
    return []


def _is_ignored(rules: list[_Ignore], path: Path, is_folder: bool) -> bool:
    """The innermost .gitignore with a pattern that matches decides."""
    decisions = (rule.decide(path, is_folder) for rule in reversed(rules))
    return next((decision for decision in decisions if decision is not None), False)


class _Ignore:
    """The patterns of one .gitignore."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    @cached_property
    def patterns(self) -> list[IgnorePattern]:
        try:
            content = read_bytes(str(self.folder / ".gitignore"))
        except OSError:
            content = b""
        return parse_patterns(content.decode(errors="surrogateescape").splitlines())

    def decide(self, path: Path, is_folder: bool) -> bool | None:
        """Whether these patterns ignore the path; None if none of them matches."""
        if not self.patterns:
            return None
        full = path.parent.resolve() / path.name
        relative = full.relative_to(self.folder).as_posix()
        return decide(self.patterns, relative + "/" * is_folder)
