"""The rules. A new file in this folder is a new rule.

It has a docstring, which explains the rule, a function `visit`, and a `RULE` with the rest. Rules
that look for similar things share a file, which has their `RULES`; what explains them, and the
examples of every rule, are in `rules.toml`.
"""

from __future__ import annotations

import importlib
import pkgutil
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from shardlift.source.model import Rule


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule by its code, sorted by code."""
    texts = tomllib.loads(Path(__file__).with_name("rules.toml").read_text("utf-8"))
    rules: dict[str, Rule] = {}
    for rule in _listed():
        if rule.code in rules:
            raise ValueError(f"two rules have the code {rule.code}")
        rules[rule.code] = replace(rule, **texts[rule.code])
    return dict(sorted(rules.items()))


def _listed() -> Iterator[Rule]:
    """The rules of all files, as these have them."""
    for found in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{found.name}")
        yield from getattr(module, "RULES", ())
        if (rule := getattr(module, "RULE", None)) is not None:
            name, visit = found.name.replace("_", "-"), getattr(module, "visit", rule.visit)
            yield replace(rule, name=name, explain=module.__doc__, visit=visit)
