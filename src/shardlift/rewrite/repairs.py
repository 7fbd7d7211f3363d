"""Which changes `fix` makes: all except for a pmap that jax.pmap of the target maps rightly."""

import ast

from shardlift.check.rules import all_rules
from shardlift.rewrite.nested import tangled
from shardlift.source.file import File, remembered
from shardlift.source.model import Kind, Match


def is_repair(file: File, match: Match) -> bool:
    """Whether `fix` makes a change, or says why it does not."""
    return match.kind not in (Kind.SITE, Kind.VALUE) or match.node in _nested(file)


@remembered
def _nested(file: File) -> set[ast.AST]:
    """The sites of pmaps inside one another, if the target refuses them."""
    rule = all_rules()["SL204"]
    if file.target < rule.since or not file.mentions:
        return set()
    found = {match.node for match in rule.visit(file)}
    return {*found, *tangled(file)} if found else found
