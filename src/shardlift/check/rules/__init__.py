"""The rules, one per file. A new file in this folder is a new rule.

It has a docstring, which explains the rule, a function `visit`, and a `RULE` with the rest.
"""

import importlib
import pkgutil
from dataclasses import replace
from functools import cache

from shardlift.source.model import Rule


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule by its code, sorted by code."""
    rules: dict[str, Rule] = {}
    for found in pkgutil.iter_modules(__path__):
        if found.name.startswith("_"):
            continue
        module = importlib.import_module(f"{__name__}.{found.name}")
        name, visit = found.name.replace("_", "-"), getattr(module, "visit", module.RULE.visit)
        rule = replace(module.RULE, name=name, explain=module.__doc__, visit=visit)
        if rule.code in rules:
            raise ValueError(f"two rules have the code {rule.code}")
        rules[rule.code] = rule
    return dict(sorted(rules.items()))
