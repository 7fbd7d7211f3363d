"""What a project asks of its formatters: yapf's style, black's and ruff's width, isort's layout."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator

from shardlift.rewrite.layout import Exists

# Where yapf looks for its settings, and the section that holds them.
_YAPF = {".style.yapf": "style", "setup.cfg": "yapf", "pyproject.toml": "tool.yapf"}
_WIDTH = re.compile(r"^\[tool\.(?:black|ruff)\][^\[]*?^line[-_]length\s*=\s*(\d{2,3})\b", re.M)
_ISORT = (".isort.cfg", "pyproject.toml", "ruff.toml", ".ruff.toml", "setup.cfg", "tox.ini")
_BETWEEN_TYPES = re.compile(r"^\s*lines[-_]between[-_]types\s*=\s*1\b", re.M)
_GRID_WRAP = re.compile(r"^\s*force[-_]grid[-_]wrap\s*=\s*([1-9])\b", re.M)
_NAMES = re.compile(r"^(from \S+ import )(\w[\w, ]*)$", re.M)
_BASED_ON = re.compile(r"^\s*based_on_style\s*[=:]\s*[\"']?(\w+)", re.M)


def yapf_style(path: str, read: Callable[[str], bytes], exists: Exists) -> str | None:
    """The predefined style that the settings for a file are based on; None if there are none."""
    for name, text in _settings(path, _YAPF, read, exists):
        inside = re.search(rf"^\[{re.escape(_YAPF[name])}\][^\n]*\n([^\[]*)", text, re.M)
        if inside is not None:
            based_on = _BASED_ON.search(inside[1])
            return based_on[1].lower() if based_on else "pep8"
    return None


def formatter_width(path: str, read: Callable[[str], bytes], exists: Exists) -> int | None:
    """The length of lines that black or ruff are asked for; None if there is none."""
    for _, text in _settings(path, ("pyproject.toml",), read, exists):
        if width := _WIDTH.search(text):
            return int(width[1])
    return None


def laid_out_as_isort(text: str, path: str, read: Callable[[str], bytes], exists: Exists) -> str:
    """The text of a new module, its sorted imports laid out as isort or ruff are asked to.

    That is a line between `import` and `from`, or one line for each of so many names.
    """
    asked = "\n".join(text for _, text in _settings(path, _ISORT, read, exists))
    if wrap := _GRID_WRAP.search(asked):
        text = _NAMES.sub(lambda found: _one_per_line(found, int(wrap[1])), text)
    if _BETWEEN_TYPES.search(asked):
        text = re.sub(r"^(import .*\n)(?=from )", r"\1\n", text, flags=re.M)
    return text


def _one_per_line(found: re.Match[str], least: int) -> str:
    """Imported names on lines of their own, if there are at least so many."""
    names = [name.strip() for name in found[2].split(",")]
    if len(names) < least:
        return found[0]
    return "\n".join((f"{found[1]}(", *(f"    {name}," for name in names), ")"))


def _settings(
    path: str, names: Iterable[str], read: Callable[[str], bytes], exists: Exists
) -> Iterator[tuple[str, str]]:
    """The files of these names that hold for a file, the nearest first: their name and text."""
    for folder in _folders(path, exists):
        for name in names:
            if exists(settings := os.path.join(folder, name)):
                yield name, read(settings).decode("utf-8", "replace")


def _folders(path: str, exists: Exists) -> Iterator[str]:
    """The folder of a file and those above it, up to the top of its repository."""
    folder = os.path.dirname(os.path.abspath(path))
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder or exists(os.path.join(folder, ".git")):
            return
        folder = above
