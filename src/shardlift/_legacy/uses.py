"""The restored names that a program used, and how often."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["UseRecorder", "Uses"]


class UseRecorder(Protocol):
    """An observer of a program, such as `shardlift.facts.Recorder`."""

    def pmap(self, pmap: Callable[..., Any], /) -> Callable[..., Any]:
        """A pmap like ``pmap`` whose sites are recorded."""

    def jit(self, jit: Callable[..., Any], /) -> Callable[..., Any]:
        """A jit like ``jit`` that records the functions that call shard_map."""

    def read(self, array: Any, how: str, nbytes: int, /) -> None:
        """An output was read, by "index", "unreplicate" or "device_get"."""

    def used(self, name: str, /) -> None:
        """A restored name was used."""

    def is_apart(self) -> bool:
        """Does the recorder itself run a function of the program in this thread?"""


class Uses(Counter[str]):
    """Name -> how often it was looked up; for a function of this package, called.

    >>> uses = Uses()
    >>> uses.note("jax.tree_map")
    >>> dict(uses)
    {'jax.tree_map': 1}
    """

    recorder: UseRecorder | None = None

    def note(self, name: str) -> None:
        """Count one more use, if it is the program's own."""
        if self.recorder is not None:
            if self.recorder.is_apart():
                return
            self.recorder.used(name)
        self[name] += 1

    def counter(self, name: str) -> Callable[[], None]:
        """A function that notes one more use of ``name``."""
        return lambda: self.note(name)

    def count_calls(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """``function``, with a use of ``name`` noted at each call."""

        @functools.wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.note(name)
            return function(*args, **kwargs)

        counted.__counts_calls__ = True  # type: ignore[attr-defined]
        return counted
