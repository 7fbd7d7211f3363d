"""Escaping of untrusted text, so that a terminal does not act on control characters in it."""

from __future__ import annotations

import re

__all__ = ["CONTROL", "escape_control"]

# Control characters, which start escape sequences; characters that change the direction of text;
# other line ends; lone surrogates, which names of files may contain.
CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escape_control(text: str, keep: str = "") -> str:
    r"""The text with its control characters escaped, except those in ``keep``.

    >>> escape_control("a\x1b[31m\n\udc80")
    'a\\x1b[31m\\n\\udc80'
    >>> escape_control("a\tb\x07", keep="\t")
    'a\tb\\x07'
    """
    return CONTROL.sub(lambda match: match[0] if match[0] in keep else _escape(match[0]), text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
