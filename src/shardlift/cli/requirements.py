"""What the project has to require once it is migrated: the lines to change."""

from __future__ import annotations

import os
from collections.abc import Sequence

from shardlift.cli.config import Config
from shardlift.rewrite.results import Migration
from shardlift.source.model import Version
from shardlift.source.settings import Settings
from shardlift.source.target import Pin, newest_allowed, oldest_flax


def to_raise(config: Config, settings: Settings, migration: Migration) -> list[tuple[Pin, str]]:
    """The requirements that let a JAX in that is too old for the new text, and the new lines.

    A flax that does not run with that JAX is one, too. What only tests and notebooks need raises
    no requirement of those who install the project.
    """
    needed = migration.needed_jax
    if needed is None or not migration.changes_program:
        return []
    lines = [(pin, pin.with_lower_bound(needed)) for pin in config.pins if pin.is_below(needed)]
    flax = oldest_flax(max(needed, settings.target))
    for pin in config.pins:
        allowed = newest_allowed([pin.text], "flax")
        if allowed is not None and allowed < flax:
            lines.append((pin, pin.with_lower_bound(flax)))
    return lines


def sentences(
    raised: Sequence[tuple[Pin, str]], settings: Settings, needed: Version | None
) -> list[str]:
    """What the summary of a migration says about them."""
    if needed is None or (not raised and settings.target >= needed):
        return []
    number = _text(needed)
    said = [f"The new text needs JAX {number} or newer."]
    if settings.target < needed:
        said[0] += (
            f" The project is read for JAX {_text(settings.target)}: with --target-jax {number} "
            "the names removed until then are rewritten, too."
        )
    return said + [f"  {_place(pin)}: {pin.text}  ->  {new}" for pin, new in raised]


def _place(pin: Pin) -> str:
    here = os.path.relpath(pin.path)
    return f"{pin.path if here.startswith(os.pardir) else here}:{pin.line}"


def _text(version: Version) -> str:
    return ".".join(map(str, version))
