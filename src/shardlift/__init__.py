"""shardlift: the way off ``jax.pmap``.

``import shardlift`` is cheap and does not import JAX: names are loaded when they are
first used (PEP 562), so that the linter works where JAX is not installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shardlift.mapping import Pmapped as Pmapped
    from shardlift.mapping import pmap as pmap

__version__ = "0.1.0.dev0"

# Public name -> the module that holds it.
_WHERE = {
    "Pmapped": "shardlift.mapping",
    "pmap": "shardlift.mapping",
}

__all__ = ["__version__", *_WHERE]


def __getattr__(name: str) -> Any:
    try:
        module = _WHERE[name]
    except KeyError:
        raise AttributeError(f"module 'shardlift' has no attribute {name!r}") from None
    try:
        value = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("jax", "jaxlib", "numpy"):
            raise
        raise ImportError(
            f'shardlift.{name} needs JAX, which is not installed here: pip install "shardlift[jax]"'
        ) from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
