"""The restored names that a program used, and how often."""

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any


class Uses(Counter[str]):
    """Name -> how often it was looked up; for a function of this package, called.

    >>> uses = Uses()
    >>> uses.note("jax.tree_map")
    >>> dict(uses)
    {'jax.tree_map': 1}
    """

    recorder: Any = None  # a `shardlift.facts.Recorder`

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
