"""Functions of one row, for blocks of one row."""

import functools
from collections.abc import Callable
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
