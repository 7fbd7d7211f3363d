"""Which releases of JAX's libraries work with today's JAX.

The table beside this file was measured by `bench/old_libraries.py`, with imports: a release that
imports may still fail later, but one that does not import certainly does not work.
"""

import functools
import json
from importlib.resources import files
from itertools import takewhile
from typing import Any, NamedTuple

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion
from packaging.version import Version as Release

_WORKS, _NOT_JAX = "works", "other"  # of another reason than JAX nothing is known


class WorkingRelease(NamedTuple):
    """A release of a library that imports with a JAX."""

    version: str
    tested: str  # date


def oldest_working(library: str, jax: str) -> WorkingRelease | None:
    """The first release of a library since which all that were tested work with a JAX."""
    table = _table()
    rows = [row for row in table["releases"] if row["library"] == canonicalize_name(library)]
    newest_first = sorted(rows, key=lambda row: Release(row["version"]), reverse=True)
    tested = ((row["version"], _result(row["results"], jax)) for row in newest_first)
    known = [(version, result) for version, result in tested if result not in (None, _NOT_JAX)]
    working = [*takewhile(lambda pair: pair[1] == _WORKS, known)]
    return WorkingRelease(working[-1][0], table["date"]) if working else None


def _result(results: dict[str, dict[str, str]], jax: str) -> str | None:
    """The result with the newest tested JAX that is not newer than this one, or else the oldest."""
    lines = sorted(results, key=Release)
    try:
        older = [line for line in lines if Release(line) <= Release(jax)]
    except InvalidVersion:
        older = lines
    chosen = older[-1:] or lines[:1]
    return results[chosen[0]]["plain"] if chosen else None


@functools.cache
def _table() -> dict[str, Any]:
    text = files("shardlift.source").joinpath("old_libraries.json").read_text("utf-8")
    table: dict[str, Any] = json.loads(text)
    return table
