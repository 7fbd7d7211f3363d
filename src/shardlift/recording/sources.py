"""Digests of the source files of a program. What is proven holds for these texts only."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from shardlift._compat import is_installed
from shardlift.capture.text_digest import digest
from shardlift.recording.caller import GLUE, shown
from shardlift.source.text import UnreadableError, read_source

MOST_FILES, LARGEST = 2000, 8_000_000


def sources() -> dict[str, str]:
    """Digests of the Python files of this program, without installed packages."""
    found: dict[str, str] = {}
    for path in sorted({*_files()})[:MOST_FILES]:
        try:
            if os.path.getsize(path) <= LARGEST:
                content = Path(path).read_bytes()
                found[shown(path)] = digest(read_source(path, content).text)
        except (OSError, UnreadableError):
            continue
    return found


def _files() -> list[str]:
    found = []
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.endswith(".py") and name.partition(".")[0] not in GLUE:
            whole = os.path.abspath(path)
            if not is_installed(whole) and not is_installed(os.path.realpath(whole)):
                found.append(whole)
    return found
