"""Removed options of ``jax.config``: they can be set, read and given as flags without an error.

Their values have no effect: what they switched on is either the only way now (``jax_array``), or
restored by this package (``jax_pmap_shmap_merge``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from shardlift import _compat
from shardlift._legacy.patches import Patches
from shardlift._legacy.uses import Uses

__all__ = ["OPTIONS", "restore"]

# Option -> its default. The comment is the release that removed it.
OPTIONS: dict[str, Any] = {
    "jax_pmap_shmap_merge": False,  # 0.10
    "jax_pmap_no_rank_reduction": True,  # 0.9
    "jax_array": True,  # 0.4.14
    "jax_jit_pjit_api_merge": True,  # 0.4.14
    "jax_parallel_functions_output_gda": False,  # 0.4.26
    "jax_eager_pmap": True,  # 0.6
    "jax_spmd_mode": "allow_jit",  # 0.6
    "jax_coordination_service": True,  # 0.4.16
    "jax_enable_memories": True,  # 0.5
    "jax_omnistaging": True,  # 0.4
}


class Option:
    """A removed option, as ``jax.config`` holds it."""

    def __init__(self, name: str, value: Any, note: Callable[[], None]) -> None:
        """``note`` is called when the option is set or read."""
        self.name, self.note, self.set_to = name, note, value

    @property
    def value(self) -> Any:
        """The value."""
        return self.set_to

    def read(self) -> Any:
        """The value, for a program; the read is noted."""
        self.note()
        return self.set_to

    def _set(self, value: Any) -> None:
        self.note()
        self.set_to = value


def restore(patches: Patches, uses: Uses, environ: Mapping[str, str] = os.environ) -> None:
    """Restore the options, with the values of their environment variables."""
    for name, value in OPTIONS.items():
        note = uses.counter(f"jax.config.{name}")
        variable = environ.get(name.upper())
        if variable is not None:
            uses.note(f"{name.upper()} (environment)")
            value = variable if isinstance(value, str) else _is_true(variable)
        _compat.add_option(patches.set, patches.item, Option(name, value, note))


def _is_true(text: str) -> bool:
    return text.lower() in ("y", "yes", "t", "true", "on", "1")
