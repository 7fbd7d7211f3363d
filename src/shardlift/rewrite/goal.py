"""What is written, and the steps that write it."""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from shardlift.source.model import Match

if TYPE_CHECKING:
    from shardlift.source.file import File

# The axis of a site without a name: no collective of the program may find it, as none found it
# before (`try: lax.pmean(x, "batch")` with `except NameError`).
DEFAULT_AXIS = "_devices"
USUAL_AXIS = "devices"  # where none of it asks


class Goal(StrEnum):
    """What `fix` writes, and what `migrate --to` names."""

    FIX = "fix"  # what is removed, wrong or slow on the target; jax.pmap stays
    SHARD_MAP = "shard_map"  # plain jax.jit(jax.shard_map(...)), shapes as they were
    GLOBAL = "global"  # and no device axis where every array has been followed
    JIT = "jit"  # and data-parallel steps over the whole batch, without collectives
    SHIM = "shim"  # jax.pmap becomes shardlift.pmap, and nothing else changes


# One step of a migration: the places of a file that it would change, with their edits, and those
# that it leaves as they are, with the reason as their message.
Step = Callable[["File", Goal], Iterator[Match]]
