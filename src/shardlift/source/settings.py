"""Settings of a project, for both `check` and `migrate`."""

from __future__ import annotations

from dataclasses import dataclass

from shardlift.source.model import Kind, Version
from shardlift.source.target import NEWEST, NEWEST_FLAX


@dataclass(frozen=True)
class Settings:
    """Settings that a project is created with."""

    target: Version = NEWEST  # the JAX version that findings are for
    flax: Version = NEWEST_FLAX  # the flax that goes with it
    kinds: frozenset[Kind] = frozenset(Kind)  # the changes that `migrate` makes
    many_processes: bool | None = None  # whether several processes run it; None: look in the files
