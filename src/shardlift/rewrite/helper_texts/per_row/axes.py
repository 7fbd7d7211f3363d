"""`per_row` for files that leave some arguments whole, or map over another axis."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


def per_row(f: Callable[..., Any], in_axes: tuple[int | None, ...] = ()) -> Callable[..., Any]:
    """Let `f` see one row of each argument, along its axis; None: all of it."""

    def row(axis: int | None, x: Any) -> Any:
        return x if axis is None else jax.tree.map(lambda y: jnp.squeeze(y, axis), x)

    @functools.wraps(f)
    def on_block(*block: Any) -> Any:
        out = f(*map(row, in_axes or (0,) * len(block), block))
        return jax.tree.map(lambda x: jnp.expand_dims(x, 0), out)

    return on_block
