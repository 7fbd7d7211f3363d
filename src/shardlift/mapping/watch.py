"""Where somebody who records calls is told what they do; nobody by default, and then for nothing.

The hot path does not ask. What moves arguments, and what converts them in a job of many
processes, does.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from shardlift.mapping.bridge import Bridge
    from shardlift.mapping.fit import Fit
    from shardlift.mapping.inner import Call
    from shardlift.mapping.plan import Plan
    from shardlift.mapping.site import Site


class Watcher(Protocol):
    """What is told to whoever watches."""

    def fitted(self, site: Site, plan: Plan, call: Call, fit: Fit, seconds: float) -> None:
        """The arguments of a call were brought to where its plan wants them."""

    def converted(self, seconds: float) -> None:
        """Arrays of this process were made global ones, or the reverse."""


current: Watcher | None = None


class Timed:
    """A bridge that says how long it takes."""

    def __init__(self, bridge: Bridge, watcher: Watcher) -> None:
        self._bridge = bridge
        self._watcher = watcher

    def globals_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """See `Bridge.globals_of`."""
        start = time.perf_counter()
        found = self._bridge.globals_of(args, kwargs)
        self._watcher.converted(time.perf_counter() - start)
        return found

    def locals_of(self, out: Any) -> Any:
        """See `Bridge.locals_of`."""
        start = time.perf_counter()
        found = self._bridge.locals_of(out)
        self._watcher.converted(time.perf_counter() - start)
        return found
