"""Which restored names a program used, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Recorder", "Uses"]


class Recorder(Protocol):
    """What is asked of somebody who observes a program; `shardlift.facts.Recorder` does."""

    def pmap(self, pmap: Callable[..., Any], /) -> Callable[..., Any]:
        """A pmap like ``pmap`` whose sites are recorded."""

    def jit(self, jit: Callable[..., Any], /) -> Callable[..., Any]:
        """A jit like ``jit`` of which what calls shard_map is recorded too."""

    def read(self, array: Any, how: str, nbytes: int, /) -> None:
        """An output was read, by "index", "unreplicate" or "device_get"."""

    def used(self, name: str, /) -> None:
        """A restored name was used."""


class Uses(Counter[str]):
    """Name -> how often it was asked for; a function that is ours, how often it was called.

    >>> uses = Uses()
    >>> uses.note("jax.tree_map")
    >>> dict(uses)
    {'jax.tree_map': 1}
    """

    recorder: Recorder | None = None

    def note(self, name: str) -> None:
        """One more use."""
        self[name] += 1
        if self.recorder is not None:
            self.recorder.used(name)

    def noting(self, name: str) -> Callable[[], None]:
        """``note(name)``, to be called later."""
        return lambda: self.note(name)
