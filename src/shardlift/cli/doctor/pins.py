"""What holds a project's JAX pin: its libraries that do not work with the newest JAX."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import Version as Release

from shardlift.cli.document import Item, item
from shardlift.cli.input_files import read_bytes
from shardlift.source.old_libraries import (
    LibraryRelease,
    libraries,
    newest_jax,
    oldest_working,
    release,
    test_date,
    tested_versions,
)

__all__ = ["PinReport", "installed_libraries", "listed_libraries"]

_QUOTED = re.compile(r"""["']([^"']+)["']""")
_LOCKED = re.compile(r'^name = "([^"]+)"\nversion = "([^"]+)"', re.MULTILINE)  # uv, poetry, pdm


def installed_libraries() -> dict[str, str]:
    """The libraries of the table that are installed here, with their versions."""
    found: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        name = _normal(distribution.metadata["Name"] or "")
        if name in libraries():
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
    return {name: number for name, number in filter(None, versions) if name in libraries()}


def _version(line: str) -> tuple[str, str] | None:
    """The library and its version, or the newest tested release that a requirement allows."""
    text = re.split(r"\s+[#\\-]|\s*;", line.strip().removeprefix("- "), maxsplit=1)[0]
    try:
        requirement = Requirement(text)
    except InvalidRequirement:
        return None
    name = _normal(requirement.name)
    exact = [b.version for b in requirement.specifier if b.operator in ("==", "===")]
    if exact and not exact[0].endswith("*"):
        return name, exact[0]
    allowed = list(requirement.specifier.filter(tested_versions(name), prereleases=True))
    return (name, str(max(allowed, key=Release))) if allowed else None


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True)
class PinReport:
    """How some libraries fare with the newest JAX."""

    versions: Mapping[str, str]

    @property
    def broken(self) -> list[LibraryRelease]:
        """Those that do not work with it."""
        rows = (release(name, number, newest_jax()) for name, number in self.versions.items())
        return [row for row in rows if row is not None and not row.plain]

    @property
    def unknown(self) -> list[str]:
        """Those that were not tested, nor releases around them with the same result."""
        return [
            f"{name} {number}"
            for name, number in sorted(self.versions.items())
            if release(name, number, newest_jax()) is None
        ]

    def lines(self) -> Iterator[tuple[str, str]]:
        """A word and a text for each that does not work, and for all together."""
        for row in self.broken:
            yield "pin", self._sentence(row)
        unknown = f"; not known: {', '.join(self.unknown)}" if self.unknown else ""
        total = f"{len(self.broken)} of {len(self.versions)} JAX libraries"
        yield (
            "pin" if self.broken else "ok",
            f"{total} break on JAX {newest_jax()}, as tested on {test_date()}{unknown}",
        )

    def items(self) -> list[Item]:
        """The same as records."""
        return [
            item(
                "pin",
                self._sentence(row),
                library=row.library,
                version=self.versions[row.library],
                works=_works(row),
                bridged=row.bridged,
            )
            for row in self.broken
        ]

    def _sentence(self, row: LibraryRelease) -> str:
        works = _works(row)
        newer = f"{works} and newer work" if works else "no tested release works"
        bridge = "`shardlift run` bridges it" if row.bridged else "`shardlift run` does not help"
        why = f" ({row.reason})" if row.reason else ""
        here = f"{row.library} {self.versions[row.library]}"
        return f"{here} breaks on JAX {newest_jax()}{why}; {newer}; {bridge}"


def _works(row: LibraryRelease) -> str | None:
    working = oldest_working(row.library, newest_jax())
    return None if working is None else working.version
