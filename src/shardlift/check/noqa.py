"""`# noqa: SL201` comments: what each suppresses, and which of their codes suppress nothing."""

import ast
import io
import re
import tokenize
from collections.abc import Collection, Mapping

from shardlift.source.model import Rule, Suppression

_COMMENT = re.compile(
    r"#\s*noqa(?P<codes>\s*:\s*(?P<list>[A-Z]+[0-9]+(?:[,\s]+[A-Z]+[0-9]+)*))?", re.IGNORECASE
)


def find_suppressions(text: str, excused: Collection[str] = ()) -> dict[int, Suppression]:
    """Find every noqa comment in a text, by its line. Strings that look like one do not count.

    Codes in `excused` never count as unused.
    """
    if "noqa" not in text and "NOQA" not in text:
        return {}
    suppressions: dict[int, Suppression] = {}
    text = io.StringIO(text, newline=None).read()
    lines = text.split("\n")
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT and (match := _COMMENT.search(token.string)):
                codes = re.findall(r"[A-Z]+[0-9]+", (match["list"] or "").upper())
                line, column = token.start
                before = lines[line - 1][: column + match.start()]
                start = len(before.encode())  # `ast` counts columns in bytes
                end = start + len(match[0].encode())
                node = ast.Pass(lineno=line, col_offset=start, end_lineno=line, end_col_offset=end)
                suppressions[line] = Suppression(node, tuple(codes), set(excused))
    except (tokenize.TokenError, SyntaxError, SystemError):
        # The text was parsed, so the comments up to here are right. Python 3.12 raises SystemError
        # for a zero byte.
        pass
    return suppressions


def suppress(comments: Mapping[int, Suppression], node: ast.AST, rule: Rule) -> bool:
    """Whether a comment on the first or last line of a node suppresses a rule; marks it as used."""
    lines = {getattr(node, "lineno", 1), getattr(node, "end_lineno", 1)}
    on_lines = [comments[line] for line in lines if line in comments]
    hits = [comment for comment in on_lines if not comment.codes or rule.code in comment.codes]
    for suppression in hits:
        suppression.used.add(rule.code)
    return bool(hits)
