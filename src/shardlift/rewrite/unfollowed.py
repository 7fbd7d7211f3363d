"""Calls of a pmap that cannot be followed: listed, with what to do about each.

A function of the project that is called pmap changes where it is defined, and so do its calls.
"""

from collections.abc import Iterator

from shardlift.rewrite.goal import Goal
from shardlift.source.file import File
from shardlift.source.mentions import MappedBy, Unfollowed
from shardlift.source.model import Kind, Match


def rewrite(file: File, goal: Goal) -> Iterator[Match]:
    """Every such call, whatever the goal."""
    del goal
    for unfollowed in file.unfollowed:
        if unfollowed.by is not MappedBy.FUNCTION:
            yield Match(unfollowed.call, _reason(unfollowed), kind=Kind.SITE)


def _reason(one: Unfollowed) -> str:
    if one.by is MappedBy.TABLE:
        return f"{one.name} is a table's: it maps with what the table has; look where that is set"
    return (
        f"{one.name} is a pmap of another library or module: give its path, too, if it is the "
        "project's, or look for its successor of pmap"
    )
