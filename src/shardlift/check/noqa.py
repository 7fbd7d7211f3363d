"""`# noqa: SL201`: which comments suppress what, and which of them suppress nothing."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterable
from dataclasses import dataclass, field

_COMMENT = re.compile(
    r"#\s*noqa(?P<codes>\s*:\s*(?P<list>[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*))?", re.IGNORECASE
)


@dataclass
class Suppression:
    """One comment; an empty list of codes suppresses everything on its line."""

    line: int
    column: int
    length: int
    codes: tuple[str, ...]
    used: set[str] = field(default_factory=set)

    @property
    def unused(self) -> tuple[str, ...]:
        """The codes of ours that nothing on the line was suppressed by."""
        return tuple(c for c in self.codes if c.startswith("SL") and c not in self.used)


def suppressions(text: str) -> list[Suppression]:
    """Every noqa comment of a text; what only looks like one inside a string is none."""
    if "noqa" not in text and "NOQA" not in text:
        return []
    found: list[Suppression] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
            if token.type == tokenize.COMMENT and (match := _COMMENT.search(token.string)):
                listed = re.findall(r"[A-Z]+[0-9]+", (match["list"] or "").upper())
                line, column = token.start
                start = column + match.start()
                length = match.end() - match.start()
                found.append(Suppression(line, start, length, tuple(listed)))
    except (tokenize.TokenError, SyntaxError, SystemError):
        pass  # it parsed, so what was read up to here is right; SystemError: 3.12, of a zero byte
    return found


def suppressed(found: Iterable[Suppression], lines: tuple[int, ...], code: str) -> bool:
    """Whether a comment on one of these lines silences the code; notes that it was of use."""
    hit = False
    for suppression in found:
        if suppression.line in lines and (not suppression.codes or code in suppression.codes):
            suppression.used.add(code)
            hit = True
    return hit
