"""What a project asks of its formatter: the style of yapf, the width of black and ruff."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

from shardlift.migrate.layout import Exists

# Where yapf looks for its settings, and the section that holds them.
_SETTINGS = {".style.yapf": "style", "setup.cfg": "yapf", "pyproject.toml": "tool.yapf"}
_WIDTH = re.compile(r"^\[tool\.(?:black|ruff)\][^\[]*?^line[-_]length\s*=\s*(\d{2,3})\b", re.M)
_BASED_ON = re.compile(r"^\s*based_on_style\s*[=:]\s*[\"']?(\w+)", re.M)


def yapf_style(path: str, read: Callable[[str], bytes], exists: Exists) -> str | None:
    """The predefined style that the settings for a file are based on; None if there are none."""
    for folder in _folders(path, exists):
        for name, section in _SETTINGS.items():
            settings = os.path.join(folder, name)
            text = read(settings).decode("utf-8", "replace") if exists(settings) else ""
            inside = re.search(rf"^\[{re.escape(section)}\][^\n]*\n([^\[]*)", text, re.M)
            if inside is not None:
                based_on = _BASED_ON.search(inside[1])
                return based_on[1].lower() if based_on else "pep8"
    return None


def formatter_width(path: str, read: Callable[[str], bytes], exists: Exists) -> int | None:
    """The length of lines that black or ruff are asked for; None if there is none."""
    for folder in _folders(path, exists):
        settings = os.path.join(folder, "pyproject.toml")
        text = read(settings).decode("utf-8", "replace") if exists(settings) else ""
        width = _WIDTH.search(text)
        if width is not None:
            return int(width[1])
    return None


def _folders(path: str, exists: Exists) -> Iterator[str]:
    """The folder of a file and those above it, up to the top of its repository."""
    folder = os.path.dirname(os.path.abspath(path))
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder or exists(os.path.join(folder, ".git")):
            return
        folder = above
