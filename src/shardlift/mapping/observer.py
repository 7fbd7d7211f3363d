"""Where somebody who records calls is told what they do; nobody by default, and then for nothing.

The hot path does not ask. What moves arguments, and what converts them in a job of many
processes, does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from shardlift.mapping.call import Call
    from shardlift.mapping.placement import Fit
    from shardlift.mapping.plan import Plan
    from shardlift.mapping.site import Site

T = TypeVar("T")


class Watcher(Protocol):
    """What is told to whoever watches."""

    def fitted(self, site: Site, plan: Plan, call: Call, fit: Fit, seconds: float) -> None:
        """The arguments of a call were brought to where its plan wants them."""

    def converted(self, seconds: float) -> None:
        """Arrays of this process were made global ones, or the reverse."""


current: Watcher | None = None


def converting(convert: Callable[..., T], *args: Any) -> T:
    """Call ``convert``, and tell whoever watches how long it took."""
    if current is None:
        return convert(*args)
    start = time.perf_counter()
    found = convert(*args)
    current.converted(time.perf_counter() - start)
    return found
