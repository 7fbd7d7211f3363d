"""Observer slot for pmapped calls. Empty by default, at no cost.

The hot path never looks at it. Only code that moves arguments, or converts them in a job of
many processes, reports to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from shardlift.mapping.argument_placement import Fit
    from shardlift.mapping.call import Call
    from shardlift.mapping.plan import Plan
    from shardlift.mapping.site import MappedFunction

T = TypeVar("T")


class Observer(Protocol):
    """What an observer is told."""

    def fitted(
        self, site: MappedFunction, plan: Plan, call: Call, fit: Fit, seconds: float
    ) -> None:
        """The arguments of a call were placed as its plan needs them."""

    def converted(self, seconds: float) -> None:
        """Arrays of this process were converted to global arrays, or back."""


current: Observer | None = None


def time_conversion(convert: Callable[..., T], *args: Any) -> T:
    """Call ``convert`` and tell the observer, if any, how long it took."""
    if current is None:
        return convert(*args)
    start = time.perf_counter()
    result = convert(*args)
    current.converted(time.perf_counter() - start)
    return result
