"""`per_row` for files that map over the first axis of all arguments."""

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
