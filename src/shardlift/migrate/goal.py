"""What `--to` names, and the steps of a migration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING

from shardlift.source.model import Kind, Match

if TYPE_CHECKING:
    from shardlift.source.file import File


class Goal(StrEnum):
    """What `--to` names."""

    SHARD_MAP = "shard_map"  # plain jax.jit(jax.shard_map(...)), shapes as they were
    GLOBAL = "global"  # and no device axis where every array has been followed
    JIT = "jit"  # and data-parallel steps over the whole batch, without collectives
    SHIM = "shim"  # jax.pmap becomes shardlift.pmap, and nothing else changes


class Only(StrEnum):
    """What `--only` names: a part of the changes, to be reviewed on its own."""

    REMOVED = "removed"
    PMAP = "pmap"
    PLACING = "placing"

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of its changes."""
        return _KINDS[self]


_KINDS = {
    Only.REMOVED: frozenset({Kind.NAME}),
    Only.PMAP: frozenset({Kind.SITE, Kind.VALUE, Kind.CHECK_VMA, Kind.DEVICE_AXIS}),
    Only.PLACING: frozenset({Kind.PLACEMENT, Kind.READ}),
}

# One step of a migration: the places of a file that it would change, with their edits, and those
# that it leaves as they are, with the reason as their message.
Step = Callable[["File", Goal], Iterator[Match]]
