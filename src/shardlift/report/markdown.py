"""Text from a run as Markdown: nothing in it is markup, and nobody is mentioned."""

import re

from shardlift._escape import escape_control


def text(words: str) -> str:
    r"""The words on one line, with Markdown and HTML escaped; no one is mentioned by `@name`.

    >>> text("a|b <script> *x*"), text("@all #1")
    ('a\\|b \\<script\\> \\*x\\*', '@&#8203;all \\#&#8203;1')
    """
    escaped = re.sub(r"([\\`*_{}\[\]<>()#+!|~&])", r"\\\1", _one_line(words))
    return re.sub("([@#])", r"\1&#8203;", escaped)


def code(words: str) -> str:
    """A command as inline code outside a table, even if it contains backticks.

    >>> code("shardlift rule | less"), code("a`b")
    ('`shardlift rule | less`', '`` a`b ``')
    """
    line = _one_line(words)
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    return f"`{line}`" if not longest else f"{'`' * (longest + 1)} {line} {'`' * (longest + 1)}"


def _one_line(words: str) -> str:
    return escape_control(" ".join(words.split()))
