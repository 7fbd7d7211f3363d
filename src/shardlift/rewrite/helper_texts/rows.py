"""Functions of one row, for blocks of one row."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp


def per_row(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` for blocks of one row: it sees the row alone, and returns one."""

    @functools.wraps(f)
    def on_block(*block: Any) -> Any:
        row = jax.tree.map(lambda x: jnp.squeeze(x, 0), block)
        return jax.tree.map(lambda x: jnp.expand_dims(x, 0), f(*row))

    return on_block


def per_row_of(f: Callable[..., Any], in_axes: Sequence[int | None]) -> Callable[..., Any]:
    """`f` for blocks of one row where `in_axes` is 0, and whole arguments."""

    def row_of(axis: int | None, x: Any) -> Any:
        return x if axis is None else jax.tree.map(lambda y: jnp.squeeze(y, 0), x)

    @functools.wraps(f)
    def on_block(*block: Any) -> Any:
        row = map(row_of, in_axes, block)
        return jax.tree.map(lambda x: jnp.expand_dims(x, 0), f(*row))

    return on_block
