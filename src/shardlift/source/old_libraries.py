"""Which releases of JAX's libraries work with today's JAX.

The table beside this file was measured by `bench/old_libraries.py`, with imports: a release that
imports may still fail later, but one that does not import certainly does not work.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import takewhile
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion
from packaging.version import Version as Release

_WORKS, _NOT_JAX = "works", "other"  # of another reason than JAX nothing is known


@dataclass(frozen=True)
class LibraryRelease:
    """One release of a library, with one JAX."""

    library: str
    version: str
    plain: bool  # does it import?
    bridged: bool  # does it under `shardlift run`?
    reason: str  # what it stopped at
    tested: str  # date


def newest_jax() -> str:
    """The newest JAX that was tested."""
    return max(_table()["python"], key=Release)


def release(library: str, version: str, jax: str) -> LibraryRelease | None:
    """How a release fares with a JAX; None if it is not known.

    If it was not tested itself, the tested ones before and after it must agree; what is newer than
    all of them is taken to work if the newest does, and what is older to fail if the oldest does.
    """
    wanted, tested = _parse(version), list(_tested(library, jax))
    if wanted is None or not tested:
        return None
    before = [row for row in tested if Release(row.version) <= wanted][-1:]
    if before and Release(before[0].version) == wanted:
        return before[0]
    after = [row for row in tested if Release(row.version) > wanted][:1]
    if not (before and after):
        (only,) = before or after
        return only if only.plain is bool(before) else None
    around = {(row.plain, row.bridged) for row in before + after}
    return before[0] if len(around) == 1 else None


def oldest_working(library: str, jax: str) -> LibraryRelease | None:
    """The first release of a library since which all that were tested work with a JAX."""
    working = list(takewhile(lambda row: row.plain, reversed(list(_tested(library, jax)))))
    return working[-1] if working else None


def _tested(library: str, jax: str) -> Iterator[LibraryRelease]:
    """The tested releases, the oldest first."""
    table = _table()
    rows = [row for row in table["releases"] if row["library"] == canonicalize_name(library)]
    for row in sorted(rows, key=lambda row: Release(row["version"])):
        result = _result(row["results"], jax)
        if result is not None and result["plain"] != _NOT_JAX:
            yield LibraryRelease(
                row["library"],
                row["version"],
                result["plain"] == _WORKS,
                result["run"] == _WORKS,
                result["reason"],
                table["date"],
            )


def _result(results: dict[str, dict[str, str]], jax: str) -> dict[str, str] | None:
    """The result with the newest tested JAX that is not newer than this one, or else the oldest."""
    lines = sorted(results, key=Release)
    here = _parse(jax)
    older = [line for line in lines if here is None or Release(line) <= here]
    chosen = older[-1:] or lines[:1]
    return results[chosen[0]] if chosen else None


def _parse(version: str) -> Release | None:
    try:
        return Release(version)
    except InvalidVersion:
        return None


@functools.cache
def _table() -> dict[str, Any]:
    text = files("shardlift.source").joinpath("old_libraries.json").read_text("utf-8")
    table: dict[str, Any] = json.loads(text)
    return table
