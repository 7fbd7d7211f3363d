"""Observer slot for pmapped calls. Empty by default, at no cost.

The hot path never looks at it. Only code that moves arguments reports to it, by ``fitted(site,
plan, call, fit, seconds)``.
"""

from __future__ import annotations

from typing import Any

current: Any = None
