"""What the project has to require once it is migrated: the lines to change."""

from __future__ import annotations

import os

from shardlift.cli.config import Config
from shardlift.source.model import Version
from shardlift.source.settings import Settings
from shardlift.source.target import Pin


def to_raise(config: Config, needed: Version | None) -> list[tuple[Pin, str]]:
    """The requirements that let a JAX in that is too old for the new text, and the new lines."""
    if needed is None:
        return []
    return [(pin, pin.raised(needed)) for pin in config.pins if pin.is_below(needed)]


def sentences(config: Config, settings: Settings, needed: Version | None) -> list[str]:
    """What the summary of a migration says about them."""
    lines = to_raise(config, needed)
    if needed is None or (not lines and settings.target >= needed):
        return []
    number = _text(needed)
    said = [f"The new text needs JAX {number} or newer."]
    if settings.target < needed:
        said[0] += (
            f" The project is read for JAX {_text(settings.target)}: with --target-jax {number} "
            "the names removed until then are rewritten, too."
        )
    return said + [f"  {_place(pin)}: {pin.text}  ->  {new}" for pin, new in lines]


def _place(pin: Pin) -> str:
    here = os.path.relpath(pin.path)
    return f"{pin.path if here.startswith(os.pardir) else here}:{pin.line}"


def _text(version: Version) -> str:
    return ".".join(map(str, version))
