"""Settings of a project, for both `check` and `migrate`."""

from dataclasses import dataclass

from shardlift.source.model import Version
from shardlift.source.target import NEWEST, NEWEST_FLAX, oldest_flax


@dataclass(frozen=True)
class Settings:
    """Settings that a project is created with."""

    target: Version = NEWEST  # the JAX version that findings are for
    flax: Version = NEWEST_FLAX  # the newest flax that the project allows
    oldest: Version | None = None  # the oldest JAX that bounds of the project let in
    installed: tuple[str, ...] = ("",)  # how the paths begin that those who install it get
    cap: str = ""  # the requirement, and its file, that keeps the JAX of shard_map away
    many_processes: bool | None = None  # whether several processes run it; None: look in the files

    @property
    def usable_flax(self) -> Version:
        """The flax that goes with the target: a requirement that keeps it away has to be raised."""
        return self.flax if self.flax >= oldest_flax(self.target) else NEWEST_FLAX
