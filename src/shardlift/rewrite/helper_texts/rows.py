"""Functions of one row, for blocks of one row."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def per_row(f: Callable[..., Any]) -> Callable[..., Any]:
    """Let `f` see the one row of a block, and return a block of one row."""

    @functools.wraps(f)
    def on_block(*block: Any) -> Any:
        row = jax.tree.map(lambda x: jnp.squeeze(x, 0), block)
        return jax.tree.map(lambda x: jnp.expand_dims(x, 0), f(*row))

    return on_block


def per_row_in(
    f: Callable[..., Any],
    in_axes: tuple[int | None, ...],
) -> Callable[..., Any]:
    """Let `f` see one row of each argument, along its axis; None: all of it."""

    def row(axis: int | None, x: Any) -> Any:
        return x if axis is None else jax.tree.map(lambda y: jnp.squeeze(y, axis), x)

    @functools.wraps(f)
    def on_block(*block: Any) -> Any:
        out = f(*map(row, in_axes, block))
        return jax.tree.map(lambda x: jnp.expand_dims(x, 0), out)

    return on_block


def per_row_of(
    f: Callable[..., Any],
    in_axes: Any,
    out_axes: Any = 0,
) -> Callable[..., Any]:
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
