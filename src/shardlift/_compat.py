"""Every difference between JAX versions, and every name that is not public JAX API.

Each entry says when it was last checked, and has a public fallback that is tested too.
"""

from __future__ import annotations

import importlib
from typing import Protocol, cast

__all__ = ["Coordination", "coordination"]


class Coordination(Protocol):
    """What is used of the client of JAX's coordination service. Times are in milliseconds."""

    def key_value_set(self, key: str, value: str, allow_overwrite: bool = ...) -> None:
        """Leave ``value`` under ``key``."""

    def key_value_dir_get(self, key: str) -> list[tuple[str, str]]:
        """Every key that starts with ``key``, with its value; does not wait."""

    def blocking_key_value_get(self, key: str, timeout_in_ms: int) -> str:
        """The value under ``key``, waiting until somebody leaves one."""

    def wait_at_barrier(self, barrier_id: str, timeout_in_ms: int) -> None:
        """Wait until all processes are here."""


def coordination() -> Coordination | None:
    """The coordination service of this job; None in a job of one, or where JAX moved it.

    Not public in 0.10.2 nor 0.12.0 (checked 2026-11): ``jax.distributed`` offers only
    ``initialize``, ``is_initialized`` and ``shutdown``. Callers fall back on
    ``jax.experimental.multihost_utils``, which has no time-out and does not say who is missing.
    """
    try:
        state = importlib.import_module("jax._src.distributed").global_state
        return cast("Coordination | None", state.client)
    except (ImportError, AttributeError):
        return None
