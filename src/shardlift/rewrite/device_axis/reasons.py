"""Why arrays keep their device axis, each with the smallest change by hand that would let it go.

Obstacles are data until they are shown.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

READ_FIRST_ROW = (
    "if it is the same on all devices, read its first row there, `x[0]`, of a tree "
    "`tree.map(lambda x: x[0], tree)`"
)
READ_BEFORE = "read it before it is split over the devices"
PLACE = "replicate it if it is the same on all devices, shard it if it is a batch"
ALL_FILES = "give migrate all files that use it"
CALL_BY_NAME = "call it by its name there, instead of passing it on"
_RECORD = "with `shardlift run --record FILE` and give it as --facts FILE"


class ObstacleKind(Enum):
    """What is against a change, and what to do about it; the names in braces are filled in."""

    AS_TOLD = "{text}", ""
    # Where an array comes from.
    ORIGIN_UNKNOWN = "it is not known where it comes from", PLACE
    ROWS = "it has one row per device", PLACE
    PARAMETER = (
        "it comes from the parameter `{name}` at {at}, whose callers are not all known{see}",
        ALL_FILES,
    )
    NOT_FOLLOWED = "it comes from `{text}` at {at}, which is not followed", PLACE
    # How it is used.
    ESCAPES = "it {escape}", "{advice}"
    ROWS_READ = "rows of it are read at {at}", READ_BEFORE
    DONATED = "it is donated at {at}", "leave it out of donate_argnums"
    NOT_GIVEN = "it is not given to a pmapped function", PLACE
    SITE_STAYS = "{name} is not rewritten to global arrays", "{why}"
    COMMENTS = "there are comments inside `{text}` at {at}", "move them above the line"
    NAME_TAKEN = "the name `{name}` means something else at {at}", "rename that"
    # What runs prove of an output.
    MAY_DIFFER = (
        "{leaf} is not proven to be the same on all devices: {why}",
        "return its lax.pmean, or return it apart from the rest, and let it stay one per device",
    )
    IF_ARGUMENT = (
        "{path} is the same on all devices only if argument {arguments} is",
        "see what is said of that argument",
    )
    NOT_RECORDED = (
        "whether {name} returns the same on all devices is not known",
        f"record a run that calls it, as it is now, {_RECORD}",
    )
    ONE_DEVICE = (
        "{name} was recorded on one device",
        "record it on as many devices as it is to run on",
    )
    NO_PROOF = (
        "the recorded run has no proof for {name}, not all of whose programs were analysed",
        "record it without jax.vmap or jax.grad around it",
    )
    FILE_CHANGED = (
        "{file} has changed since the run was recorded",
        "record it again with `shardlift run --record FILE`",
    )
    RUNS_DISAGREE = (
        "the recorded runs disagree about what {name} returns, {parts}",
        "let it always return the same parts",
    )
    # Of a site.
    OPTIONS = "{error}", "write its options out, axes as 0 or None"
    AXES = (
        "its axes are not 0 or None, or its out_axes are not the same for all outputs",
        "write jax.shard_map with other specs by hand",
    )
    GIVEN = "it is given devices", "leave that out if it runs on all devices"
    NEGATIVE = "donate_argnums counts from the end", "count from the start"
    STATIC = "it has static arguments", "bind them with functools.partial"
    METHOD = "it maps a method", "map a function"
    NOTEBOOK = "cells of notebooks are not followed", "move the program to a script"
    MANY_PROCESSES = (
        "several processes run it, each with arrays of its own",
        "make global arrays of them by hand, or use shardlift.pmap",
    )
    FEWER_ROWS = (
        "a recorded run gives it fewer rows than there are devices",
        "give it one row per device",
    )
    PASSED_ON = "the mapped function {escape}", "{advice}"
    SEVERAL = "several functions may be called at {at}", "call each by its own name"
    ARGUMENTS = (
        "its call at {at} has keyword or unpacked arguments, or another number than others",
        "always give all arguments by position",
    )
    MAPPED_AGAIN = (
        "it may be mapped again, and is then not compiled again",
        "map it once, at the top level",
    )


@dataclass(frozen=True)
class Obstacle:
    """A fact against a change, and what to do about it."""

    kind: Enum  # whose value is the text, in parts
    about: Mapping[str, object] = field(default_factory=dict)  # by their names in the text

    def __str__(self) -> str:
        return ": ".join(part.format_map(self.about) for part in self.kind.value if part)


def obstacle(kind: Enum, /, **about: object) -> Obstacle:
    """An obstacle, with what its text names."""
    return Obstacle(kind, about)
