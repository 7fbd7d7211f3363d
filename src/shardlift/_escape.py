"""Escaping of untrusted text, so that neither a terminal nor the log of a job acts on it."""

import re

# Control characters, which start escape sequences; characters that change the direction of text;
# other line ends; lone surrogates, which names of files may contain. And one character of what is
# a command in the log of GitHub Actions or Azure Pipelines: `::error ::` where a line may begin,
# `##[error]` and `##vso[...]` anywhere.
CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
    r"|(?<!\S):(?=:)|(?<=#)#(?=\w*\[)"
)


def escape_control(text: str, keep: str = "") -> str:
    r"""The text with its control characters escaped, except those in ``keep``.

    >>> escape_control("a\x1b[31m\n\udc80")
    'a\\x1b[31m\\n\\udc80'
    >>> escape_control("::error file=a::b ##[error]")
    '\\x3a:error file=a::b #\\x23[error]'
    >>> escape_control("a\tb\x07", keep="\t")
    'a\tb\\x07'
    """
    return CONTROL.sub(lambda match: match[0] if match[0] in keep else _escape(match[0]), text)


def _escape(character: str) -> str:
    if character in ":#":
        return f"\\x{ord(character):x}"
    return character.encode("unicode_escape").decode("ascii")
