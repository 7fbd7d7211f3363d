"""Observing functions that read arrays."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import jax

Tell = Callable[[jax.Array, str, int, float], None]  # array, how, bytes, seconds


def observe_reads(function: Callable[..., Any], how: str, tell: Tell) -> Callable[..., Any]:
    """``function``, which reads a tree of arrays; ``tell`` is called for each of them."""

    @functools.wraps(function)
    def read(tree: Any, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        out = function(tree, *args, **kwargs)
        seconds = time.perf_counter() - start
        arrays = [leaf for leaf in jax.tree.leaves(tree) if is_concrete(leaf)]
        for leaf in arrays:
            # What is brought to the host; where one row is read, its bytes.
            rows = leaf.shape[0] if how == "unreplicate" and leaf.ndim else 1
            nbytes = leaf.size * leaf.dtype.itemsize // max(rows, 1)
            tell(leaf, how, nbytes, seconds / len(arrays))
        return out

    read.__name__ = read.__qualname__ = how
    return read


def is_concrete(leaf: Any) -> bool:
    """Is this an array that holds values, not a traced one?"""
    return isinstance(leaf, jax.Array) and not isinstance(leaf, jax.core.Tracer)
