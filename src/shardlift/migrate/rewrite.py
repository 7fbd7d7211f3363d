"""What `--to` names, and the steps of a migration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from shardlift.source.model import Match

if TYPE_CHECKING:
    from shardlift.source.file import File


class Goal(StrEnum):
    """What `--to` names."""

    SHARD_MAP = "shard_map"  # plain jax.jit(jax.shard_map(...)), shapes as they were
    GLOBAL = "global"  # and no device axis where every array has been followed
    SHIM = "shim"  # jax.pmap becomes shardlift.pmap, and nothing else changes


# One step of a migration: the places of a file that it would change, with their edits, and those
# that it leaves as they are, with the reason as their message.
Step = Callable[["File", Goal], Iterator[Match]]
