"""Names and options that JAX no longer has, or that have a new name.

Where the successor is the same thing, the edit is the one that `check` proposes. Else the place is
left as it is, with the sentence that `check` says.
"""

from __future__ import annotations

from collections.abc import Iterator

from shardlift.check.rules import all_rules
from shardlift.migrate.rewrite import Goal, Kind, Refusal, Rewrite
from shardlift.source.file import File

# Of the 1xx: what is placed and what is pmapped is for other steps, and the experimental
# shard_map still works.
CODES = ("SL102", "SL103", "SL104", "SL105", "SL106", "SL107", "SL108", "SL109", "SL110", "SL113")


def rewrite(file: File, goal: Goal) -> Iterator[Rewrite | Refusal]:
    """Every finding of these rules, whatever the goal: the program does not run with them."""
    del goal
    for code in CODES:
        rule = all_rules()[code]
        for match in rule.visit(file) if rule.since <= file.target else ():
            if match.edits:
                yield Rewrite(match.node, Kind.REMOVED_NAME, match.edits, match.imports)
            else:
                yield Refusal(match.node, Kind.REMOVED_NAME, match.message)
