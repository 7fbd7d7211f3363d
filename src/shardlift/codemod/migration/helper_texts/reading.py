"""The first row of arrays that have one row on each device, read where it lies."""

from typing import Any

import jax
from jax.sharding import NamedSharding


def unreplicate(tree: Any) -> Any:
    """The row on the first device, of every leaf; nothing is gathered."""
    return jax.tree.map(lambda x: _first_row(x) if _in_rows(x) else x[0], tree)


def first_replica(tree: Any) -> Any:
    """`x[0]` of every leaf, on all devices as `x[0]` is; but only that row is moved."""

    def first(x: Any) -> Any:
        if not _in_rows(x) or not x.is_fully_addressable:
            return x[0]
        return jax.device_put(_first_row(x), NamedSharding(x.sharding.mesh, jax.P()))

    return jax.tree.map(first, tree)


def _in_rows(x: Any) -> bool:
    """Whether every device holds whole rows of `x`."""
    if not isinstance(x, jax.Array) or isinstance(x, jax.core.Tracer) or not x.ndim:
        return False
    return x.sharding.shard_shape(x.shape)[1:] == x.shape[1:]


@jax.jit
def _row_of(block: jax.Array) -> jax.Array:
    return block[0]


def _first_row(x: jax.Array) -> jax.Array:
    return _row_of(x.addressable_data(0))
