"""Observer slot for pmapped calls. Empty by default, at no cost.

The hot path never looks at it. Only code that moves arguments reports to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from shardlift.mapping.argument_placement import Fit
    from shardlift.mapping.call import Call
    from shardlift.mapping.plan import Plan
    from shardlift.mapping.site import MappedFunction


class Observer(Protocol):
    """What an observer is told."""

    def fitted(
        self, site: MappedFunction, plan: Plan, call: Call, fit: Fit, seconds: float
    ) -> None:
        """The arguments of a call were placed as its plan needs them."""


current: Observer | None = None
