"""Digests of the source files of a program. What is proven holds for these texts only."""

import functools
import os
import sys
from pathlib import Path

from shardlift._own_files import is_own
from shardlift.capture.text_digest import digest
from shardlift.recording.caller import GLUE, shown
from shardlift.source.text import UnreadableError, read_source


def sources() -> dict[str, str]:
    """Digests of the Python files and notebooks of this program, without installed packages."""
    digests: dict[str, str] = {}
    for path in sorted({*_files()}):
        try:
            status = os.stat(path)
            digests[shown(path)] = _digest(path, status.st_mtime_ns, status.st_size)
        except (OSError, UnreadableError):
            continue
    return digests


@functools.cache  # a job of many processes writes its capture again and again
def _digest(path: str, _changed: int, _size: int) -> str:
    return digest(read_source(path, Path(path).read_bytes()).text)


def _files() -> list[str]:
    paths = []
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if not isinstance(path, str) or name.partition(".")[0] in GLUE:
            continue
        if path.endswith((".py", ".ipynb")):
            whole = os.path.abspath(path)
            if is_own(whole) and is_own(os.path.realpath(whole)):
                paths.append(whole)
    return paths
