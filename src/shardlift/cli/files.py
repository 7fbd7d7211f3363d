"""Finding the files to look at: what .gitignore leaves out is left out."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from shardlift.cli.input_files import read_bytes, reason

SUFFIXES = (".py", ".ipynb")
# Other people's code, and copies of our own.
_NEVER = {".venv", "venv", "node_modules", ".tox", ".nox", ".eggs", ".ipynb_checkpoints"}
_NOT_CODE = {".git", ".hg", ".svn", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}


@dataclass
class Passed:
    """What was not looked into on the way: on purpose, or because it could not be."""

    skipped: list[str] = field(default_factory=list)  # files and folders, folders as a whole
    failed: list[tuple[str, str]] = field(default_factory=list)  # with the reason


def find_files(paths: tuple[str, ...], passed: Passed | None = None) -> Iterator[str]:
    """Every .py and .ipynb under the paths, in order, once; a file that is named always counts."""
    passed = passed or Passed()
    seen: set[str] = set()
    for path in paths:
        for found in _walk(Path(path), passed) if os.path.isdir(path) else [path]:
            key = os.path.normpath(found)
            if key not in seen:
                seen.add(key)
                yield key


def _walk(root: Path, passed: Passed) -> Iterator[str]:
    # Folders wait in a list, not in calls: a tree may be deeper than Python can call.
    waiting: list[tuple[str, list[_Ignore] | None]]
    waiting = [(str(root), [_Ignore(folder) for folder in _parents_in_repository(root)])]
    while waiting:
        path, rules = waiting.pop()
        if rules is None:
            yield path
        else:
            waiting += reversed(_inside(path, rules, passed))


def _inside(
    folder: str, outer: list[_Ignore], passed: Passed
) -> list[tuple[str, list[_Ignore] | None]]:
    """The files and folders of a folder that count, in order, folders with their rules."""
    has_rules = os.path.isfile(os.path.join(folder, ".gitignore"))
    rules = [*outer, _Ignore(Path(folder))] if has_rules else outer
    try:
        with os.scandir(folder) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except OSError as error:
        passed.failed.append((os.path.normpath(folder), reason(error)))
        return []
    found: list[tuple[str, list[_Ignore] | None]] = []
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        if entry.name in _NOT_CODE or not (is_folder or entry.name.endswith(SUFFIXES)):
            continue
        # Neither is a pipe, a device, or a link to nothing, to itself or to a folder a file.
        is_file = not is_folder and os.path.isfile(entry.path)
        unwanted = entry.name in _NEVER or _ignored(rules, Path(entry.path), is_folder)
        if unwanted or not (is_folder or is_file):
            passed.skipped.append(os.path.normpath(entry.path))
        else:
            found.append((entry.path, rules if is_folder else None))
    return found


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
            content = read_bytes(str(self.folder / ".gitignore"))
        except OSError:
            return []
        lines = content.decode(errors="surrogateescape").splitlines()
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
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what Python may one day read as a set of sets
            return negated, folders_only, re.compile(prefix + _glob(line))
    except re.error:  # `[z-a]`: git matches nothing by it
        return None


def _glob(pattern: str) -> str:
    result, index = "", 0
    while index < len(pattern):
        if pattern.startswith("**/", index):
            result, index = result + "(?:.*/)?", index + 3
        elif pattern.startswith("**", index):
            result, index = result + ".*", index + 2
        elif pattern[index] == "[" and "]" in pattern[index + 2 :]:
            close = pattern.index("]", index + 2)
            inner = pattern[index + 1 : close].replace("\\", "\\\\").replace("[", "\\[")
            inner = "^" + inner[1:] if inner.startswith("!") else inner
            result, index = f"{result}[{inner}]", close + 1
        else:
            character = pattern[index]
            result += {"*": "[^/]*", "?": "[^/]"}.get(character, re.escape(character))
            index += 1
    return result
