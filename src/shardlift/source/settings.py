"""What the files of a project are read for: the same for `check` and `migrate`."""

from __future__ import annotations

from dataclasses import dataclass

from shardlift.source.model import Kind, Version
from shardlift.source.target import NEWEST, NEWEST_FLAX


@dataclass(frozen=True)
class Settings:
    """Given to a project when it is made."""

    target: Version = NEWEST  # the JAX that findings and removed names are for
    flax: Version = NEWEST_FLAX  # the flax that goes with it
    kinds: frozenset[Kind] = frozenset(Kind)  # the changes that `migrate` makes
    many_processes: bool | None = None  # whether several processes run it; None: the files tell
