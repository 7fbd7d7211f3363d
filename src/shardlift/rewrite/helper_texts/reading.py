"""The first row of arrays that have one row on each device, read where it lies."""

from typing import Any

import jax


def first_row(x: Any) -> Any:
    """`x[0]`, without a gather if `x` is an array with one row per device."""
    traced = isinstance(x, jax.core.Tracer)
    if isinstance(x, jax.Array) and not traced and x.is_fully_addressable:
        block = x.addressable_data(0)
        if block.shape == (1, *x.shape[1:]):
            return block.squeeze(0)
    return x[0]


def unreplicate(tree: Any) -> Any:
    """The first row of every leaf."""
    return jax.tree_util.tree_map(first_row, tree)
