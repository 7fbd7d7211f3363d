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
from shardlift.source.model import Version

__all__ = ["OPTIONS", "restore"]

# Option -> the release that removed it, and its default.
OPTIONS: dict[str, tuple[Version, Any]] = {
    "jax_pmap_shmap_merge": ((0, 10), False),
    "jax_pmap_no_rank_reduction": ((0, 9), True),
    "jax_array": ((0, 4, 14), True),
    "jax_jit_pjit_api_merge": ((0, 4, 14), True),
    "jax_parallel_functions_output_gda": ((0, 4, 26), False),
    "jax_eager_pmap": ((0, 6), True),
    "jax_spmd_mode": ((0, 6), "allow_jit"),
    "jax_coordination_service": ((0, 4, 16), True),
    "jax_enable_memories": ((0, 5), True),
    "jax_omnistaging": ((0, 4), True),
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


def restore(
    patches: Patches, uses: Uses, here: Version, environ: Mapping[str, str] = os.environ
) -> None:
    """Restore the options, with the values of their environment variables."""
    for name, (gone, value) in OPTIONS.items():
        if gone > here:
            continue
        note = uses.counter(f"jax.config.{name}")
        variable = environ.get(name.upper())
        if variable is not None:
            uses.note(f"{name.upper()} (environment)")
            value = variable if isinstance(value, str) else _is_true(variable)
        _compat.add_option(patches.set, patches.item, Option(name, value, note))


def _is_true(text: str) -> bool:
    return text.lower() in ("y", "yes", "t", "true", "on", "1")
