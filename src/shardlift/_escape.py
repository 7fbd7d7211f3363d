"""Text of others, shown as it is: nothing in it is obeyed by a terminal."""

from __future__ import annotations

import re

__all__ = ["OBEYED", "plain"]

# Control characters, escape sequences with them; what turns the direction of text around; what
# some take for the end of a line; halves of characters, as names of files may have them.
OBEYED = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str, keep: str = "") -> str:
    r"""The text with its control characters written out, but for those in ``keep``.

    >>> plain("a\x1b[31m\n\udc80")
    'a\\x1b[31m\\n\\udc80'
    >>> plain("a\tb\x07", keep="\t")
    'a\tb\\x07'
    """
    return OBEYED.sub(lambda found: found[0] if found[0] in keep else _written(found[0]), text)


def _written(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
