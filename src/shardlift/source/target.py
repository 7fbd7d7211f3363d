"""The JAX and the flax that findings are for, and the requirements that a project has."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version as Release

from shardlift.source.model import Version, dotted

if TYPE_CHECKING:
    from packaging.requirements import Requirement
    from packaging.specifiers import Specifier

NEWEST: Version = (0, 12)
NEWEST_FLAX: Version = (0, 12, 12)
# Of each minor release 0.N the last patch release, and those that were never published.
_PATCHES = {
    "jax": {1: 77, 2: 28, 3: 25, 4: 38, 5: 3, 6: 2, 7: 2, 8: 3, 9: 2, 10: 2, 11: 2, 12: 0},
    "flax": {1: 0, 2: 2, 3: 6, 4: 2, 5: 3, 6: 11, 7: 5, 8: 5, 9: 0, 10: 7, 11: 2, 12: 12},
}
_NEVER = {
    "jax": {(0, 2, 23), (0, 3, 18), (0, 4, 0), (0, 4, 15), (0, 4, 32)},
    "flax": {(0, 6, 5), (0, 7, 1), (0, 7, 3), (0, 12, 11)},
}
# flax's own use of JAX: `nn.Dense(3).init` raises with an older flax on JAX 0.10.2 and 0.12.0.1.
_OLDEST_FLAX: tuple[tuple[Version, Version], ...] = (
    ((0, 11), (0, 12, 7)),  # it asked for names of jax.core that JAX 0.11 removed
    ((0, 4, 36), (0, 10)),  # it asked for the levels of traces
)
# The last JAX before a flax: what lets in no newer flax was written for that, or an older one.
_BEFORE_FLAX: tuple[tuple[Version, Version], ...] = (
    ((0, 6, 3), (0, 3, 25)),
    ((0, 8, 2), (0, 4, 24)),
)
# The oldest Python that JAX says it runs on.
_OLDEST_PYTHON: tuple[tuple[Version, Version], ...] = (
    ((0, 11), (3, 12)),
    ((0, 7), (3, 11)),
    ((0, 4, 31), (3, 10)),
    ((0, 4, 14), (3, 9)),
    ((0, 4), (3, 8)),
)
# Comments, options such as `--hash=...`, and line continuations of a requirements file.
_AFTER_REQUIREMENT = re.compile(r"\s+[#\\-]")
_UPPER = ("<", "<=", "!=")
_CUDA = ("cuda", "cuda12", "cuda13", "cuda12-local", "cuda13-local")
_EXTRAS = re.compile(r"^(\s*jax)\s*\[([^]]*)\]")
_SPECIFIER = re.compile(r"^(\s*\w+(?:\[[^]]*\])?)\s*(?:@\s*\S+|[<>=!~][^;#]*?)?(?=\s*(?:;|#|\\|$))")
_RELEASE_OF_URL = re.compile(r"\bjax(?:lib)?-v?(\d+(?:\.\d+)+)")  # of a wheel, or a tag of git


@dataclass(frozen=True)
class Pin:
    """A requirement of JAX, jaxlib or flax, and where it is written."""

    path: str
    text: str
    start: int = 0  # its first character in the file; negative if it is spelled another way there
    constraint: str = ""  # what poetry has in its place, such as `^0.4`
    group: str = ""  # the extra or group, in words, that pins it, or several packages with it

    def is_below(self, needed: Version) -> bool:
        """Whether it is one of JAX or jaxlib that lets older releases in."""
        requirement = _requirement(self.text)
        if requirement is None or requirement.name.lower() not in ("jax", "jaxlib"):
            return False
        if requirement.url:
            known = _RELEASE_OF_URL.search(requirement.url)
            return known is not None and Release(known[1]).release < needed
        older = [release for release in _releases("jax") if release.release < needed]
        return any(True for _ in requirement.specifier.filter(older)) or any(
            bound.operator == "==" and Release(bound.version.removesuffix(".*")).release < needed
            for bound in requirement.specifier
        )

    @property
    def is_bounded(self) -> bool:
        """Whether it says which releases it lets in."""
        requirement = _requirement(self.text)
        return requirement is not None and bool(requirement.specifier or requirement.url)

    def keeps_away(self, needed: Version) -> bool:
        """Whether it lets in no release of JAX, or of flax, that is as new as this one."""
        allowed = _allowed(self.text, "flax" if self.text.lower().startswith("flax") else "jax")
        return allowed is not None and all(release < needed for release in allowed)

    def caps_below(self, needed: Version) -> bool:
        """Whether an upper bound keeps a release of JAX or jaxlib away."""
        number = dotted(needed)
        bounds = _bounds(self.text)
        return any(b.operator in ("<", "<=") and not b.contains(number) for b in bounds)

    def with_lower_bound(self, needed: Version, below: Version | None = None) -> str:
        """The requirement with a newer lower bound, and with its upper bound if that fits.

        ``below``: an upper bound for one that has none that fits.
        """
        number = dotted(needed)
        bounds = _bounds(self.text)
        kept = sorted(str(b) for b in bounds if b.operator in _UPPER and b.contains(number))
        if below is not None and not kept:
            kept = [f"<{dotted(below)}"]
        name = self.text.partition(";")[0]
        space = " " if re.search(r"[<>=~]= \S", name) else ""  # as in "jax >= 0.4"
        listed = ",".join([f"{space}>={space}{number}", *kept])
        text = _SPECIFIER.sub(rf"\g<1>{listed}", self.text, count=1)
        return with_todays_extras(text.strip())


def with_todays_extras(requirement: str) -> str:
    """The requirement with extras that today's JAX has: pip ignores others with a warning.

    >>> with_todays_extras("jax[cuda11_cudnn86]>=0.4"), with_todays_extras("jax[tpu]")
    ('jax[cuda12]>=0.4', 'jax[tpu]')
    """

    def replace(match: re.Match[str]) -> str:
        extras = [_today_extra(extra.strip()) for extra in match[2].split(",")]
        return f"{match[1]}[{','.join(dict.fromkeys(extras))}]"

    return _EXTRAS.sub(replace, requirement, count=1)


def _today_extra(extra: str) -> str:
    """`cuda12_pip` is `cuda12`, the only one since JAX 0.6; CUDA 11 is not supported any more."""
    plain = extra.lower().replace("_", "-")
    if not plain.startswith("cuda") or plain in _CUDA:
        return extra
    return "cuda13" if plain.startswith("cuda13") else "cuda12"


def oldest_flax(jax: Version) -> Version:
    """The oldest flax that runs with a JAX."""
    return next((flax for since, flax in _OLDEST_FLAX if jax >= since), (0,))


def jax_of(flax: Version | None) -> Version | None:
    """The JAX of the days of the newest flax that is let in; None if any new one is."""
    return next((jax for until, jax in _BEFORE_FLAX if flax and flax < until), None)


def oldest_python(jax: Version) -> Version:
    """The oldest Python that a JAX runs on."""
    return next((python for since, python in _OLDEST_PYTHON if jax >= since), (0,))


def newest_flax(requirements: Iterable[str]) -> Version | None:
    """The newest flax that lines such as `flax>=0.6,<0.8` allow; None if none names flax."""
    allowed = (_allowed(line, "flax") for line in requirements)
    newest = (max(versions, default=NEWEST_FLAX) for versions in allowed if versions is not None)
    return min((min(version, NEWEST_FLAX) for version in newest), default=None)


def oldest_allowed(requirements: Iterable[str]) -> Version | None:
    """The oldest JAX that such lines allow; None if none of them has a lower bound.

    >>> oldest_allowed(["jax>=0.4.30,<0.6", "flax"]), oldest_allowed(["jax", "jax<0.5"])
    ((0, 4, 30), None)
    """
    oldest = _releases("jax")[0].release
    bounds = (min(_allowed(line, "jax") or [oldest]) for line in requirements)
    return max((bound for bound in bounds if bound > oldest), default=None)


def oldest_bound(pins: Iterable[Pin]) -> Version | None:
    """The oldest JAX that a bound of a requirement lets in; None if none has a bound."""
    bounded = (_allowed(pin.text, "jax") for pin in pins if _bounds(pin.text))
    return min((min(releases) for releases in bounded if releases), default=None)


def _allowed(line: str, package: str) -> list[Version] | None:
    """The releases of a package that a line allows; None if it is not about that package."""
    requirement = _requirement(line)
    if requirement is None or requirement.name.lower() != package:
        return None
    pinned = [b.version for b in requirement.specifier if b.operator == "=="]
    candidates = [*_releases(package), *(Release(v) for v in pinned if not v.endswith("*"))]
    return [release.release for release in requirement.specifier.filter(candidates)]


def _requirement(line: str) -> Requirement | None:
    text = _AFTER_REQUIREMENT.split(line.strip(), maxsplit=1)[0]
    if not text.lower().startswith(("jax", "flax")):
        return None
    # It takes long to import, and most projects that are checked are without such a line.
    from packaging.requirements import Requirement

    try:
        requirement = Requirement(text)
        for bound in requirement.specifier:
            Release(bound.version.removesuffix(".*"))
        return requirement
    except ValueError:  # not a requirement, or a number of thousands of digits
        return None


def _bounds(line: str) -> list[Specifier]:
    requirement = _requirement(line)
    return [] if requirement is None else [*requirement.specifier]


def _releases(package: str) -> list[Release]:
    """Every release of a library, up to the newest that is known here."""
    return [
        Release(f"0.{minor}.{patch}")
        for minor, last in _PATCHES[package].items()
        for patch in range(last + 1)
        if (0, minor, patch) not in _NEVER[package]
    ]
