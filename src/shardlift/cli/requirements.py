"""The JAX that the new text needs, and the requirements of the project that let an older one in."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from shardlift.rewrite.results import Migration
from shardlift.source.model import Version
from shardlift.source.target import Pin, newest_flax, oldest_flax

_RECENT: Version = (0, 6)


def too_old(pins: Sequence[Pin], target: Version, migration: Migration) -> list[Pin]:
    """The requirements that let in a JAX, or a flax, that is too old for the new text.

    A name that is a few years old is held against a bound only. What only tests and notebooks
    need is held against nothing.
    """
    needed = migration.needed_by_program
    if needed is None:
        return []
    old = [pin for pin in pins if pin.is_below(needed) and (needed >= _RECENT or pin.is_bounded)]
    if old or needed >= _RECENT:
        flax = oldest_flax(max(needed, target))
        old += [pin for pin in pins if (newest_flax([pin.text]) or flax) < flax]
    return old


def needs(
    migration: Migration, pins: Sequence[Pin], old: Sequence[Pin], code: Callable[[str], str] = str
) -> list[str]:
    """What the summary says of them; nothing where a bound keeps every JAX that is too old away."""
    needed, by_program = migration.needed_jax, migration.needed_by_program
    is_met = by_program and not old and any(pin.is_bounded for pin in pins)
    if needed is None or is_met:
        return []
    place = " in ".join(map(code, migration.needed_for))
    cause = f", for {place}" if place else ""
    only = "" if by_program else " in tests and notebooks"
    lines = [f"The new text needs JAX {'.'.join(map(str, needed))} or newer{only}{cause}."]
    if old:
        lines.append("These requirements let in what is too old:")
    return lines + [f"- {code(os.path.relpath(pin.path))}: {code(pin.text)}" for pin in old]
