"""The patterns of a .gitignore, matched in linear time whatever their number of wildcards.

After each `*` the next fixed part is looked for where it first occurs, and after each `**` the
next fixed folders; a later occurrence would leave less to match the rest with. So nothing is tried
twice: the groups `(?>...)` of the regular expressions are atomic.

Reference: https://git-scm.com/docs/gitignore#_pattern_format
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Iterable
from typing import NamedTuple

_LONGEST = 4096  # characters; no path is longer
# A bracket expression, stars, an escaped character, any other character.
_TOKEN = re.compile(r"\[([!^]?)(\]?(?:\\.|[^]\\])+)\]|(\*+)|\\(.)|([^\\[])", re.DOTALL)


class IgnorePattern(NamedTuple):
    """One line of a .gitignore."""

    regex: re.Pattern[str]
    ignores: bool  # False for a line that begins with `!`


def parse_patterns(lines: Iterable[str]) -> list[IgnorePattern]:
    """The patterns of a .gitignore. Like git, pass over lines such as `!` and `[z-a]`."""
    return [pattern for line in lines if (pattern := _parse(line)) is not None]


def decide(patterns: list[IgnorePattern], path: str) -> bool | None:
    """Whether a path is ignored; None if no pattern matches it.

    Args:
      patterns: of one .gitignore; the last one that matches decides.
      path: relative to the folder of the .gitignore, with `/` at its end if it is a folder.
    """
    decisions = (pattern.ignores for pattern in reversed(patterns) if pattern.regex.match(path))
    return next(decisions, None)


def _parse(line: str) -> IgnorePattern | None:
    text = line.rstrip(" ")
    if text != line and text.endswith("\\"):
        text += " "
    text, ignores = text.removeprefix("!"), not text.startswith("!")
    if not text.strip("/") or line.startswith("#") or len(line) > _LONGEST:
        return None
    parts = text.removeprefix("/").removesuffix("/").split("/")
    if "/" not in text.removesuffix("/"):
        parts.insert(0, "**")
    if parts[-1] == "**":
        parts.append("*")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `[[...]]`: "possible nested set"
            regex = re.compile(_path(parts, r"/\Z" if text.endswith("/") else r"/?\Z"))
    except (ValueError, re.error):
        return None
    return IgnorePattern(regex, ignores)


def _path(parts: list[str], end: str) -> str:
    """The parts of a path; `**` stands for any number of folders."""
    groups = itertools.groupby(parts, "**".__eq__)
    fixed = ["/".join(map(_name, group)) for is_any, group in groups if not is_any]
    ends = [*(r"(?=/)" for _ in fixed[1:]), end]
    skips = ["(?:[^/]+/)*?" if number or parts[0] == "**" else "" for number in range(len(fixed))]
    return "/".join(f"(?>{''.join(block)})" for block in zip(skips, fixed, ends, strict=True))


def _name(text: str) -> str:
    """The name of a file or folder; ValueError if it is not a pattern."""
    fixed, position = [""], 0  # what stands between the stars
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise ValueError(text)
        position = token.end()
        negated, bracket, stars, escaped, other = token.groups()
        if stars:
            fixed.append("")
        elif bracket:
            inner = re.sub(r"\\(.)", lambda match: re.escape(match[1]), bracket)
            fixed[-1] += f"(?!/)[{'^' * bool(negated)}{inner}]"
        else:
            fixed[-1] += "[^/]" if other == "?" else re.escape(escaped or other)
    first, *others = fixed
    middle = "".join(f"(?>[^/]*?{part})" for part in others[:-1])
    last = f"[^/]*{others[-1]}" if others else ""
    return f"(?=[^/]){first}{middle}{last}"
