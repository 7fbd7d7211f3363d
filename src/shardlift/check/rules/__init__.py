"""The rules, one per file. A new file in this folder is a new rule."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from shardlift.source.model import Rule


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule by its code, sorted by code."""
    rules: dict[str, Rule] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.name.startswith("_"):
            continue
        rule = importlib.import_module(f"{__name__}.{module.name}").RULE
        assert isinstance(rule, Rule)
        if rule.code in rules:
            raise ValueError(f"two rules have the code {rule.code}")
        rules[rule.code] = rule
    return dict(sorted(rules.items()))
