"""Removed options of ``jax.config``: they can be set and read without an error.

Their values have no effect: what they switched on is either the only way now (``jax_array``), or
restored by this package (``jax_pmap_shmap_merge``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import jax

from shardlift import _compat
from shardlift._legacy.names import OPTIONS
from shardlift._legacy.patches import Patches, Uses


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
    values = {name: value for name, value in OPTIONS.items() if not hasattr(jax.config, name)}
    for name, value in values.items():
        variable = environ.get(name.upper())
        if variable is not None:
            uses.note(f"{name.upper()} (environment)")
            yes = variable.lower() in ("y", "yes", "t", "true", "on", "1")
            values[name] = variable if isinstance(value, str) else yes
        patches.set(config, name, _option(name, values, uses))
    stock: Any = config.update

    def update(self: Any, name: str, value: Any) -> None:
        if name in values:
            uses.note(f"jax.config.{name}")
            values[name] = value
        else:
            stock(self, name, value)

    patches.set(config, "update", update)


def _option(name: str, values: Mapping[str, Any], uses: Uses) -> property:
    def read(_: Any) -> Any:
        uses.note(f"jax.config.{name}")
        return values[name]

    return property(read)
