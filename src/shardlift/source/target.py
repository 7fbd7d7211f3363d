"""The JAX version that findings are for: the newest one that a project's requirements allow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version as Release

from shardlift.source.model import Version

NEWEST: Version = (0, 12)
NEWEST_FLAX: Version = (0, 12, 12)
# Comments, options such as `--hash=...`, and line continuations of a requirements file.
_AFTER_REQUIREMENT = re.compile(r"\s+[#\\-]")


def newest_allowed(requirements: Iterable[str]) -> Version | None:
    """The newest JAX that lines such as `jax[cuda12]>=0.4,<0.6` allow; None if none names jax."""
    versions = [newest for line in requirements if (newest := _newest(line)) is not None]
    return min(versions, default=None)


def _newest(line: str) -> Version | None:
    text = _AFTER_REQUIREMENT.split(line.strip(), maxsplit=1)[0]
    if not text.lower().startswith("jax"):
        return None
    try:
        requirement = Requirement(text)
        allowed = list(requirement.specifier.filter(_candidates(requirement.specifier)))
    except ValueError:  # not a requirement, or a number of thousands of digits
        return None
    if requirement.name.lower() != "jax":
        return None
    return min(max((release.release for release in allowed), default=NEWEST), NEWEST)


def _candidates(specifier: SpecifierSet) -> Iterator[Release]:
    """The newest allowed version is one of these: the end of a minor line, or next to a bound."""
    yield Release(f"{NEWEST[0]}.{NEWEST[1]}")
    for minor in range(NEWEST[1]):
        yield Release(f"0.{minor}.999")  # later than any patch release of that line
    for bound in specifier:
        release = Release(bound.version.removesuffix(".*"))
        yield release
        if release.micro:
            yield Release(f"{release.major}.{release.minor}.{release.micro - 1}")
