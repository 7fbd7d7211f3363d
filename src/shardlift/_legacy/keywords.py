"""Keywords that functions of ``jax.numpy`` lost: given to the argument that took their place."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax

from shardlift._legacy.patches import Patches
from shardlift._legacy.uses import Uses
from shardlift.source.model import Version

__all__ = ["KEYWORDS", "restore"]

_METHOD = ((0, 8), {"interpolation": "method"})

# Function -> the release in which the keywords went, and what each is called now; "" is the
# first argument, which can be given by position only.
KEYWORDS: dict[str, tuple[Version, dict[str, str]]] = {
    "clip": ((0, 10), {"a": "", "a_min": "min", "a_max": "max"}),
    "reshape": ((0, 4, 36), {"newshape": "shape"}),
    "quantile": _METHOD,
    "percentile": _METHOD,
    "nanquantile": _METHOD,
    "nanpercentile": _METHOD,
}


def restore(patches: Patches, uses: Uses, here: Version) -> None:
    """Let the functions take them."""
    for name, (gone, renamed) in KEYWORDS.items():
        if gone <= here:
            taking = _taking(getattr(jax.numpy, name), renamed, f"jax.numpy.{name}", uses)
            patches.set(jax.numpy, name, taking)


def _taking(
    function: Callable[..., Any], renamed: Mapping[str, str], name: str, uses: Uses
) -> Callable[..., Any]:
    @functools.wraps(function)
    def taking(*args: Any, **options: Any) -> Any:
        for old in renamed.keys() & options.keys():
            uses.note(f"{name}({old}=)")
            value = options.pop(old)
            if renamed[old]:
                options[renamed[old]] = value
            else:
                args = (value, *args)
        return function(*args, **options)

    return taking
