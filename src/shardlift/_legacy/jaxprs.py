"""Jaxprs made by keyword, as programs that rewrite them do."""

from __future__ import annotations

import types
from typing import Any

from shardlift._legacy.modules import when_imported
from shardlift._legacy.patches import Patches
from shardlift._legacy.uses import Uses

__all__ = ["restore"]


def restore(patches: Patches, uses: Uses) -> None:
    """Let ``ClosedJaxpr(jaxpr=…, consts=…)`` work.

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
