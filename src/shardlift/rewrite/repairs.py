"""Which changes `fix` makes: all except for a pmap that jax.pmap of the target maps rightly."""

from __future__ import annotations

import ast

from shardlift.check.rules import all_rules
from shardlift.rewrite.nested import tangled
from shardlift.source.file import File
from shardlift.source.model import Kind, Match


def is_repair(file: File, match: Match) -> bool:
    """Whether `fix` makes a change, or says why it does not."""
    return match.kind not in (Kind.SITE, Kind.VALUE) or match.node in _nested(file)


def _nested(file: File) -> frozenset[ast.AST]:
    """The sites of pmaps inside one another, if the target refuses them."""
    rule = all_rules()["SL204"]
    if file.target < rule.since:
        return frozenset()
    if _nested not in file.memo:
        found = {match.node for match in rule.visit(file)} if file.mentions else set()
        file.memo[_nested] = frozenset({*found, *tangled(file)} if found else ())
    nodes: frozenset[ast.AST] = file.memo[_nested]
    return nodes
