"""Settings of a project, for both `check` and `migrate`."""

from __future__ import annotations

from dataclasses import dataclass

from shardlift.source.model import Version
from shardlift.source.target import NEWEST


@dataclass(frozen=True)
class Settings:
    """Settings that a project is created with."""

    target: Version = NEWEST  # the JAX version that findings are for
    many_processes: bool | None = None  # whether several processes run it; None: look in the files
