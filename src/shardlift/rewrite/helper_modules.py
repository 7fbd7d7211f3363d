"""The module that holds the helpers of several files, with what is there kept."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from shardlift.rewrite.call_format import Style
from shardlift.rewrite.helpers import (
    definitions,
    emit,
    extended,
)
from shardlift.rewrite.import_order import imports_like
from shardlift.rewrite.imports import add_imports
from shardlift.rewrite.layout import Exists
from shardlift.rewrite.results import FileResult
from shardlift.source.model import HelperRequest
from shardlift.source.text import UnreadableError, read_source

_WIDTH = re.compile(r"^\[tool\.(?:black|ruff)\][^\[]*?^line[-_]length\s*=\s*(\d{2,3})\b", re.M)


def helper_modules(
    results: Sequence[FileResult],
    read: Callable[[str], bytes],
    exists: Exists,
    paths: Sequence[str],
) -> tuple[FileResult, ...]:
    """The modules of helpers that these files import, with all that the files need.

    `paths` are all files of the project.
    """
    users: dict[str, list[FileResult]] = {}
    for result in results:
        if result.home.path is not None and result.helpers:
            users.setdefault(result.home.path, []).append(result)
    modules: list[FileResult] = []
    rewritten = {result.path: result.after for result in results}
    for path, files in users.items():
        before = read_source(path, read(path)).text if exists(path) else ""
        requests = frozenset[HelperRequest]().union(*(file.helpers for file in files))
        texts = [file.before for file in files if file.path.endswith(".py")]
        style = Style.of_helpers(before or "\n".join(texts))
        style = replace(style, width=formatter_width(path, read, exists) or style.width)
        header = _usual_header(path, paths, read)
        text = helper_module(rewritten.get(path, before), requests, style, header)
        if not before:
            text = imports_like(texts[0], text)
        modules.append(FileResult(path, before, text))
    return tuple(modules)


def formatter_width(path: str, read: Callable[[str], bytes], exists: Exists) -> int | None:
    """The length of lines that black or ruff are asked for, up to the top of the repository."""
    folder = os.path.dirname(os.path.abspath(path))
    while True:
        if exists(settings := os.path.join(folder, "pyproject.toml")):
            width = _WIDTH.search(read(settings).decode("utf-8", "replace"))
            if width:
                return int(width[1])
        above = os.path.dirname(folder)
        if above == folder or exists(os.path.join(folder, ".git")):
            return None
        folder = above


def _usual_header(path: str, paths: Sequence[str], read: Callable[[str], bytes]) -> str:
    """The licence at the top of most files of a folder; nothing if most have none."""
    folder = os.path.dirname(os.path.abspath(path))
    modules = [other for other in paths if other.endswith(".py")]
    beside = [other for other in modules if os.path.dirname(os.path.abspath(other)) == folder]
    texts = [text for text in (_text(other, read) for other in beside) if text.strip()]
    headers = [header for header in map(licence_header, texts) if header]
    return max(headers, key=headers.count) if 2 * len(headers) > len(texts) else ""


def _text(path: str, read: Callable[[str], bytes]) -> str:
    try:
        return read_source(path, read(path)).text
    except (OSError, UnreadableError):
        return ""


def licence_header(text: str) -> str:
    """The comment at the top of a file, with the blank line below, if it is about a licence."""
    found = re.match(r"(?:#!.*\n)?(?:#.*coding[:=].*\n)?((?:#.*\n)+\s*)", text)
    if found is None or not re.search(r"copyright|licen[cs]e|spdx", found[1], re.I):
        return ""
    return f"{found[1].rstrip()}\n\n" if found[1].endswith("\n\n") else found[1]


def helper_module(
    existing: str, requests: Iterable[HelperRequest], style: Style, header: str = ""
) -> str:
    """The text of a package's module of helpers, with what is there kept."""
    if not existing.strip():
        return emit(requests, style, header)
    text, missing, imports = extended(existing, requests, style)
    if text == existing and not missing:
        return existing
    text = add_imports(text, imports)
    return f"{text.rstrip()}\n\n\n{definitions(missing, style)}" if missing else text
