"""A function of one row, for blocks of one row along any axes."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def per_row_of(f: Callable[..., Any], in_axes: Any, out_axes: Any = 0) -> Callable[..., Any]:
    """Let `f` see one row of each block, along its axis; None: all of it."""

    def at_axes(change: Callable[..., Any], axes: Any, tree: Any) -> Any:
        def part(k: int | None, x: Any) -> Any:
            return x if k is None else jax.tree.map(lambda y: change(y, k), x)

        return jax.tree.map(part, axes, tree, is_leaf=lambda k: k is None)

    @functools.wraps(f)
    def on_block(*block: Any) -> Any:
        row = at_axes(jnp.squeeze, in_axes, block)
        return at_axes(jnp.expand_dims, out_axes, f(*row))

    return on_block
