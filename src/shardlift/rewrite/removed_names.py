"""Names and options that JAX no longer has: the edits are those that `check` proposes.

Where there is no successor, the place is left as it is, with the sentence that `check` says. A use
inside a guard for its name is skipped, and said to be.
"""

from collections.abc import Iterator

from shardlift.check.renames import guarded_uses
from shardlift.check.rules import all_rules
from shardlift.rewrite.goal import Goal
from shardlift.rewrite.left_alone import explains_pmap
from shardlift.source.file import File
from shardlift.source.model import Kind, Level, Match
from shardlift.source.removed_names import ALL


def rewrite(file: File, goal: Goal) -> Iterator[Match]:
    """Every finding of these rules, whatever the goal: the program does not run with them."""
    del goal
    for rule in all_rules().values():
        if Kind.NAME in rule.rewritten_as and rule.since <= file.target:
            for match in rule.visit(file):
                if rule.level is Level.SLOW and explains_pmap(file, match.node):
                    continue
                if match.edits or (rule.rewritten_as == {Kind.NAME} and rule.level is Level.BROKEN):
                    yield match
    for node, row, guard in guarded_uses(file, ALL):
        where = f"guarded on line {file.span(guard).line}"
        yield Match(node, f"{row.name} is {where}", kind=Kind.NAME, skipped=True)
