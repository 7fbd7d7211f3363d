"""The documentation page of a rule: what `shardlift rule` prints and the site shows."""

from __future__ import annotations

import textwrap

from shardlift.source.model import Example, Rule

_EFFECTS = {
    "removed": "an error as soon as the name is reached",
    "broken": "raises, or hangs",
    "wrong": "runs, and the numbers are not those that pmap gave",
    "slow": "runs, and moves or copies more than it must",
    "old": "runs; it is what `shardlift migrate` rewrites",
}


def page(rule: Rule) -> str:
    """Markdown, of at most 80 columns wherever the text is ours to wrap."""
    since = "" if rule.since == (0,) else f", since JAX {'.'.join(map(str, rule.since))}"
    parts = [
        f"# {rule.code} {rule.name}",
        f"**{rule.effect.value}**: {_EFFECTS[rule.effect.value]}{since}.",
        *(_wrapped(part) for part in rule.explain.strip().split("\n\n")),
        _wrapped(f"What to do: {rule.advice}"),
        f"Reference: <{rule.reference}>",
        "## Reported",
        *(_block(example) for example in rule.bad),
        "## Left alone",
        *(_block(example) for example in rule.good),
    ]
    return "\n\n".join(parts) + "\n"


def _wrapped(paragraph: str) -> str:
    return textwrap.fill(" ".join(paragraph.split()), 79, break_long_words=False)


def _block(example: Example) -> str:
    if isinstance(example, str):
        return f"```python\n{example.rstrip()}\n```"
    files = (f"# {path}\n{text.rstrip()}" for path, text in example.items())
    return "```python\n" + "\n\n".join(files) + "\n```"
