"""The comments in a piece of a program."""

from __future__ import annotations

import io
import tokenize


def comments_in(text: str) -> list[tokenize.TokenInfo]:
    """The comments of a text that can be read on its own, such as an expression in parentheses.

    >>> [comment.string for comment in comments_in('(f(x,  # the rows\\n"#"))')]
    ['# the rows']
    """
    if "#" not in text:
        return []
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token for token in tokens if token.type == tokenize.COMMENT]


def has_comment(text: str) -> bool:
    """Whether a text has a comment, or may have one because it cannot be read on its own."""
    try:
        return bool(comments_in(text))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return True
