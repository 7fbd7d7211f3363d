"""Removed keywords, passed on as the arguments that replaced them."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

import jax

from shardlift._legacy.modules import when_imported
from shardlift._legacy.patches import Patches
from shardlift._legacy.uses import Uses

__all__ = ["KEYWORDS", "restore"]

_METHOD = {"interpolation": "method"}  # removed in 0.8

# Function -> each removed keyword, and its name now; "" is the first argument, which can be given
# by position only.
KEYWORDS: dict[str, dict[str, str]] = {
    "clip": {"a": "", "a_min": "min", "a_max": "max"},  # removed in 0.10
    "reshape": {"newshape": "shape"},  # removed in 0.4.36
    "quantile": _METHOD,
    "percentile": _METHOD,
    "nanquantile": _METHOD,
    "nanpercentile": _METHOD,
}


def restore(patches: Patches, uses: Uses) -> None:
    """Let functions of ``jax.numpy``, and ``ClosedJaxpr``, take their old keywords."""
    for name, renamed in KEYWORDS.items():
        wrapper = _accept_old(getattr(jax.numpy, name), renamed, f"jax.numpy.{name}", uses)
        patches.set(jax.numpy, name, wrapper)
    _restore_closed_jaxpr(patches, uses)


def _accept_old(
    function: Callable[..., Any], renamed: Mapping[str, str], name: str, uses: Uses
) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        for old in renamed.keys() & options.keys():
            uses.note(f"{name}({old}=)")
            value = options.pop(old)
            if renamed[old]:
                options[renamed[old]] = value
            else:
                args = (value, *args)
        return function(*args, **options)

    return call


def _restore_closed_jaxpr(patches: Patches, uses: Uses) -> None:
    """Let ``ClosedJaxpr(jaxpr=…, consts=…)`` work, as programs that rewrite jaxprs call it.

    Since 0.12 it is the class ``Jaxpr``, which takes a jaxpr and its constants by position only.
    """

    def change(core: types.ModuleType) -> None:
        kind: Any = core.Jaxpr
        if core.ClosedJaxpr is not kind:
            return
        stock = kind.__init__

        def __init__(self: Any, *args: Any, **options: Any) -> None:  # noqa: N807
            if "jaxpr" in options:
                uses.note("jax.extend.core.ClosedJaxpr(jaxpr=)")
                args = (options.pop("jaxpr"), options.pop("consts", ()), *args)
            stock(self, *args, **options)

        patches.set(kind, "__init__", __init__)

    when_imported("jax.extend.core", patches, change)
