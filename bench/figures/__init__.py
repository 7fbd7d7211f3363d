"""The figures of the documentation, each made by one script here from the files in ``results``."""

from __future__ import annotations

import importlib
import pkgutil

__all__ = ["draw_all"]


def draw_all() -> None:
    """Draw every figure for which something was measured."""
    for module in pkgutil.iter_modules(__path__):
        script = importlib.import_module(f"{__name__}.{module.name}")
        if hasattr(script, "draw"):
            script.draw()
