"""What holds a project's JAX pin: its libraries that do not work with the newest JAX."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Mapping

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version as Release

from shardlift.cli.document import Item, item
from shardlift.cli.files import read_bytes
from shardlift.source import old_libraries as table

_QUOTED = re.compile(r"""["']([^"']+)["']""")
_LOCKED = re.compile(r'^name = "([^"]+)"\nversion = "([^"]+)"', re.MULTILINE)  # uv, poetry, pdm


def installed_libraries() -> dict[str, str]:
    """The libraries of the table that are installed here, with their versions."""
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = canonicalize_name(distribution.metadata["Name"] or "")
        if name in table.libraries():
            found.setdefault(name, distribution.version)  # the first one is imported
    return found


def listed_libraries(path: str) -> dict[str, str]:
    """The libraries of the table that a requirements or lock file asks for, with their versions.

    A requirement is a line, or a text in quotes. Of one that allows several releases, the newest
    tested one counts. Raises ValueError or OSError if the file cannot be read.
    """
    text = read_bytes(path).decode()
    lines: list[str] = []
    for line in text.splitlines():
        lines += [line, *_QUOTED.findall(line)]
    lines += [f"{name}=={number}" for name, number in _LOCKED.findall(text)]  # the last one counts
    versions = (_version(line) for line in lines)
    return {name: number for name, number in filter(None, versions) if name in table.libraries()}


def _version(line: str) -> tuple[str, str] | None:
    """The library and its version, or the newest tested release that a requirement allows."""
    text = re.split(r"\s+[#\\-]|\s*;", line.strip().removeprefix("- "), maxsplit=1)[0]
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return None
    name = canonicalize_name(requirement.name)
    exact = [b.version for b in requirement.specifier if b.operator in ("==", "===")]
    if exact and not exact[0].endswith("*"):
        return name, exact[0]
    allowed = list(requirement.specifier.filter(table.tested_versions(name), prereleases=True))
    return (name, str(max(allowed, key=Release))) if allowed else None


def judge_libraries(versions: Mapping[str, str]) -> tuple[list[Item], str]:
    """Those that do not work with the newest JAX, and a sentence about all of them."""
    newest = table.newest_jax()
    rows = {name: table.release(name, number, newest) for name, number in versions.items()}
    broken = [_item(row, versions[name]) for name, row in rows.items() if row and not row.plain]
    unknown = [f"{name} {versions[name]}" for name in sorted(rows) if rows[name] is None]
    more = f"; not known: {', '.join(unknown)}" if unknown else ""
    total = f"{len(broken)} of {len(rows)} JAX libraries break on JAX {newest}"
    return broken, f"{total}, as tested on {table.test_date()}{more}"


def _item(row: table.LibraryRelease, number: str) -> Item:
    newest, name = table.newest_jax(), row.library
    working = table.oldest_working(name, newest)
    works = working and working.version
    newer = f"{works} and newer work" if works else "no tested release works"
    bridge = "bridges it" if row.bridged else "does not help"
    why = f" ({row.reason})" if row.reason else ""
    said = f"{name} {number} breaks on JAX {newest}{why}; {newer}; `shardlift run` {bridge}"
    return item("pin", said, library=name, version=number, works=works, bridged=row.bridged)
