"""Removed options of ``jax.config``: they can be set, read and given as flags without an error.

Their values have no effect: what they switched on is either the only way now (``jax_array``), or
restored by this package (``jax_pmap_shmap_merge``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import jax

from shardlift import _compat
from shardlift._legacy.names import OPTIONS
from shardlift._legacy.patches import Patches
from shardlift._legacy.uses import Uses


class Option:
    """A removed option, as ``jax.config`` holds it."""

    def __init__(self, name: str, value: Any, note: Callable[[], None]) -> None:
        """``note`` is called when the program sets or reads the option."""
        self.name, self.value, self.note = name, value, note

    def read(self) -> Any:
        """The value, for a program."""
        self.note()
        return self.value

    def _set(self, value: Any) -> None:
        self.note()
        self.value = value


def restore(patches: Patches, uses: Uses, environ: Mapping[str, str] = os.environ) -> None:
    """Restore the options, with the values of their environment variables."""
    # `jax.config.define_bool_state` and its family (until 0.4.26), omnistaging, `FLAGS`.
    config = type(jax.config)
    for old, define in _compat.option_makers().items():
        noted = uses.count_calls(define, f"jax.config.{old}")
        patches.set(config, old, staticmethod(noted))
    for name in ("enable_omnistaging", "disable_omnistaging"):  # always on since 0.2
        patches.set(config, name, staticmethod(uses.counter(f"jax.config.{name}")))
    patches.set(config, "omnistaging_enabled", True)
    patches.set(config, "x64_enabled", property(lambda self: self.jax_enable_x64))
    for name in ("config", "FLAGS"):  # both read options as attributes
        patches.set(config, name, property(lambda self: self))
    for name, value in OPTIONS.items():
        note = uses.counter(f"jax.config.{name}")
        variable = environ.get(name.upper())
        if variable is not None:
            uses.note(f"{name.upper()} (environment)")
            yes = variable.lower() in ("y", "yes", "t", "true", "on", "1")
            value = variable if isinstance(value, str) else yes
        if hasattr(jax.config, name):  # this JAX has it still
            continue
        _compat.add_option(patches.set, patches.item, Option(name, value, note))
