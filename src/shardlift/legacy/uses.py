"""Which restored names a program used, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shardlift.facts import Recorder

__all__ = ["Uses"]


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
