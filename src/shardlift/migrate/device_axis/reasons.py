"""Why arrays keep their device axis, and a site its helper: each with a change by hand."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

_RECORD = "with `shardlift run --record FILE` and give it as --facts FILE"


class Change(Enum):
    """The smallest change by hand that would let it go."""

    READ_FIRST_ROW = "read its first row there, `x[0]`, of a tree `tree.map(lambda x: x[0], tree)`"
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
    NOT_EXACT = "leave out --exact"
    BY_POSITION = "give all arguments by position"
    MAP_ONCE = "map it once, at the top level"
    WRITE_OUT = "map a function of this file that nothing else calls, and return a written tuple"
    # Of a program of many processes.
    SET_UP_FIRST = "call jax.distributed.initialize() at the top of the script that maps it"
    REPLICATE = "leave them out, and replicate the argument"
    NAME_EACH = "name each argument"
    OTHER_NAME = "give it under another name at the first call"
    LET_JAX_PREFETCH = "leave out prefetch_to_device: arrays are transferred while others are used"


@dataclass(frozen=True)
class Reason:
    """A fact against a change, and what to do about it; None if the fact says so itself."""

    why: str
    change: Change | None

    def __str__(self) -> str:
        return self.why if self.change is None else f"{self.why}: {self.change.value}"
