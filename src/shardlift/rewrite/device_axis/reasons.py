"""Why arrays keep their device axis, and a site its helper: each with a change by hand.

Obstacles are data until they are shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

_RECORD = "with `shardlift run --record FILE` and give it as --facts FILE"


class Advice(Enum):
    """The smallest change by hand that would let it go."""

    READ_FIRST_ROW = (
        "if it is the same on all devices, read its first row there, `x[0]`, of a tree "
        "`tree.map(lambda x: x[0], tree)`"
    )
    READ_BEFORE = "read it before it is split over the devices"
    PLACE = "replicate it if it is the same on all devices, shard it if it is a batch"
    ALL_DEVICES = "use all of jax.local_devices() there, if it always runs on all"
    ALL_FILES = "give migrate all files that use it"
    UNPACK = "unpack the output where the function is called"
    NOT_AHEAD = "replicate it without prefetch_to_device"
    KEEP = "leave it out of donate_argnums"
    AVERAGE = "return its lax.pmean, or let it stay one per device"
    APART = (
        "average it in the step with lax.pmean, or give it to the step and return it apart from "
        "the rest"
    )
    OTHER_ARGUMENT = "see what is said of that argument"
    RECORD = f"record a run that calls it, as it is now, {_RECORD}"
    RECORD_AGAIN = "record it again with `shardlift run --record FILE`"
    RECORD_ON_MORE = "record it on as many devices as it is to run on"
    RECORD_ALONE = "record it without jax.vmap or jax.grad around it"
    SAME_OUTPUT = "let it always return the same parts"
    MAP_AS_IT_IS = "give it to the mapped function with in_axes=None"
    MOVE_COMMENTS = "move them above the line"
    RENAME = "rename that"
    IMPORT_MODULE = "import its module, and call it as an attribute of that"
    CALL_BY_NAME = "call it by its name there, instead of passing it on"
    # Of a helper around a site.
    BY_POSITION = "give all arguments by position"
    MAP_ONCE = "map it once, at the top level"
    WRITE_OUT = "map a function of this file that nothing else calls, and return a written tuple"
    # Of a program of many processes.
    SET_UP_FIRST = "call jax.distributed.initialize() at the top of the script that maps it"
    REPLICATE = "leave them out, and replicate the argument"
    NAME_EACH = "name each argument"
    OTHER_NAME = "give it under another name at the first call"
    LET_JAX_PREFETCH = "leave out prefetch_to_device: arrays are transferred while others are used"
    # Of the options of a site.
    LEAVE_OUT = "leave that out if it runs on all devices"
    OPTIONS_WRITTEN = "write its options out, axes as 0 or None"
    AXIS_WRITTEN = "write it as a string"
    RETURN_TUPLE = "return a tuple and write them as one"
    FROM_START = "count it from the start"
    MAP_FUNCTION = "map a function"
    MOVE_TO_MODULE = "move the program to a script"
    ONE_ROW_EACH = "give it one row per device"
    OWN_NAMES = "call each by its own name"
    ALWAYS_ALL = "always give all"


class ObstacleKind(Enum):
    """What is against a change, as the text that says so."""

    AS_TOLD = "{text}"
    # Where an array comes from.
    ORIGIN_UNKNOWN = "it is not known where it comes from"
    UNMAPPED = "it comes from {at}, where out_axes=None gives it none"
    PART_UNKNOWN = "it is not known what {at} reads of an output"
    SOME_DEVICES = "it is copied to some of the devices at {at}"
    ROWS = "it has one row per device"
    PARAMETER = "it comes from the parameter `{name}` at {at}, whose callers are not all known{see}"
    NOT_FOLLOWED = "it comes from `{text}` at {at}, which is not followed"
    # How it is used.
    ESCAPES = "it {escape}"
    PREFETCHED = "it is put on devices row by row at {at}"
    ROWS_READ = "rows of it are read at {at}"
    DONATED = "it is donated at {at}"
    NOT_GIVEN = "it is not given to a pmapped function"
    SITE_STAYS = "{name} is not rewritten to global arrays: {why}"
    COMMENTS = "there are comments inside `{text}` at {at}"
    METRICS_BY_NAME = "get_metrics at {at} is imported by its name"
    NAME_TAKEN = "the name `{name}` means something else at {at}"
    # What runs prove of an output.
    MAY_DIFFER = "{leaf} is not proven to be the same on all devices: {why}"
    PART_MAY_DIFFER = (
        "{leaf} is not proven to be the same on all devices: {why}; of all that is returned there, "
        "only {parts} may differ"
    )
    IF_ARGUMENT = "{path} is the same on all devices only if argument {arguments} is"
    NOT_RECORDED = "whether {name} returns the same on all devices is not known"
    ONE_DEVICE = "{name} was recorded on one device"
    NO_PROOF = "the recorded run has no proof for {name}, not all of whose programs were analysed"
    FILE_CHANGED = "{file} has changed since the run was recorded"
    RUNS_DISAGREE = "the recorded runs disagree about what {name} returns, {parts}"
    UNDATED = "the recorded run does not say which text of {file} it ran"
    # Of a site.
    OPTIONS = "{error}"
    GIVEN = "it is given {option}"
    AXIS_COMPUTED = "its axis name is not a written string"
    OUT_AXES_LIST = "its out_axes are a list"
    FROM_END = "an argument is counted from the end"
    METHOD = "it maps a method"
    NOTEBOOK = "cells of notebooks are not followed"
    FEWER_ROWS = "a recorded run gives it fewer rows than there are devices"
    PASSED_ON = "the mapped function {escape}"
    SEVERAL = "several functions may be called at {at}"
    OTHER_KEYWORDS = "it is called with other keyword arguments at {at}"
    UNPACKED = "it is called with unpacked arguments at {at}"
    OTHER_NUMBER = "it is called with another number of arguments at {at}"
    # Of plain jax.shard_map.
    NO_KEYWORDS = "jax.shard_map takes no keyword arguments"
    MAPPED_AGAIN = "it may be mapped again, and is then not compiled again"
    NO_ROWS_OF = "its function cannot take and return rows itself, and {kept}"
    NO_ROWS = "its function cannot take and return rows itself"
    # Of a program of many processes.
    OWN_ARRAYS = "each process has its own arrays, as {name} at {at} {why}"
    OTHER_SCRIPTS = "is not in one script with all that calls it"
    AXES_OF_NONE = "has axes of None"
    BY_KEYWORD = "is called with keyword arguments"
    BY_STAR = "is called with unpacked arguments"
    RETURNS_ROWS = "returns one row per device"
    OWN_OUTPUT = "may be given an output, or an array of this process"
    ON_DEVICES = "is given batches that are on devices already"


@dataclass(frozen=True)
class Obstacle:
    """A fact against a change, and what to do about it; None if the fact says so itself."""

    kind: ObstacleKind
    advice: Advice | None
    about: Mapping[str, object] = field(default_factory=dict)  # by their names in the text

    @property
    def text(self) -> str:
        """The fact alone."""
        return self.kind.value.format_map(self.about)

    def __str__(self) -> str:
        return self.text if self.advice is None else f"{self.text}: {self.advice.value}"


def obstacle(kind: ObstacleKind, advice: Advice | None, /, **about: object) -> Obstacle:
    """An obstacle, with what its text names."""
    return Obstacle(kind, advice, about)
