"""The JAX that findings are for: the newest that a project's own requirements allow."""

from __future__ import annotations

import re
from collections.abc import Iterable

from shardlift.source.model import Version, version

NEWEST: Version = (0, 12)
_REQUIREMENT = re.compile(r"^\s*jax(?:\[[^]]*\])?\s*(?P<bounds>[<>=!~^0-9][^;#]*)?\s*(?:[;#].*)?$")
_BOUND = re.compile(r"(?P<op>===|==|<=|>=|<|>|!=|~=|\^)?\s*(?P<version>[0-9][0-9.]{0,40})")


def newest_allowed(requirements: Iterable[str]) -> Version | None:
    """The newest JAX that lines such as `jax[cuda12]>=0.4,<0.6` allow; None if none names jax."""
    bounds = [
        _upper(match["bounds"]) for line in requirements if (match := _REQUIREMENT.match(line))
    ]
    return min(bounds) if bounds else None


def _upper(bounds: str | None) -> Version:
    highest = NEWEST
    for match in _BOUND.finditer(bounds or ""):
        number = version(match["version"])
        if match["op"] in ("==", "===", "<=", None):
            limit = number
        elif match["op"] == "<":
            limit = _below(number)
        elif match["op"] == "~=":
            limit = _below((*number[:-2], number[-2] + 1)) if len(number) > 1 else highest
        elif match["op"] == "^":
            limit = _below((0, number[1] + 1) if number[0] == 0 and len(number) > 1 else (1,))
        else:
            continue
        highest = min(highest, limit)
    return highest


def _below(limit: Version) -> Version:
    """A version just under a limit: `(0, 6)` is `(0, 5, 999)`."""
    stripped = list(limit)
    while stripped and stripped[-1] == 0:
        stripped.pop()
    if not stripped:
        return (0,)
    stripped[-1] -= 1
    return (*stripped, 999)
