"""The documentation page of a rule, for `shardlift rule` and the documentation."""

import textwrap

from shardlift.source.model import Example, Level, Rule, dotted

MEANING = {
    Level.BROKEN: "raises an error, hangs, or computes other numbers than pmap did",
    Level.SLOW: "runs, but moves or copies more data than necessary",
    Level.NOTE: "works, and is the old way to write it",
}


def page(rule: Rule, instead: str = "") -> str:
    """The page as Markdown, with prose wrapped at 79 columns; `instead` is what to write."""
    since = "" if rule.since == (0,) else f", since JAX {dotted(rule.since)}"
    parts = [
        f"# {rule.code} {rule.name}",
        f"**{rule.level.value}**: {MEANING[rule.level]}{since}.",
        *(_wrap(part) for part in rule.explain.strip().split("\n\n")),
        _wrap(f"What to do: {rule.advice}"),
        f"Reference: <{rule.reference}>",
        *(["## Use instead", instead] if instead else []),
        "## Reported",
        *(block(example) for example in rule.bad),
        "## Left alone",
        *(block(example) for example in rule.good),
    ]
    return "\n\n".join(parts) + "\n"


def _wrap(paragraph: str) -> str:
    return textwrap.fill(" ".join(paragraph.split()), 79, break_long_words=False)


def block(example: Example) -> str:
    """An example as a block of code."""
    if isinstance(example, str):
        return f"```python\n{example.rstrip()}\n```"
    files = (f"# {path}\n{text.rstrip()}" for path, text in example.items())
    return "```python\n" + "\n\n".join(files) + "\n```"
