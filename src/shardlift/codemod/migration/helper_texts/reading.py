"""The first row of arrays that have one row on each device, read where it lies."""

import jax


def unreplicate(tree):
    """The first device's row of every leaf, on that device: nothing is gathered."""
    return jax.tree.map(first_row, tree)


def first_replica(tree):
    """`x[0]` of every leaf, on all its devices as `x[0]` is; only that row is moved."""

    def first(x):
        row = first_row(x)
        if not holds_rows(x) or not x.is_fully_addressable:
            return row
        return jax.device_put(row, jax.NamedSharding(x.sharding.mesh, jax.P()))

    return jax.tree.map(first, tree)


def first_row(x):
    """The row of `x` on its first local device."""
    return first_of_block(x.addressable_data(0)) if holds_rows(x) else x[0]


first_of_block = jax.jit(lambda block: block[0])


def holds_rows(x):
    """Whether `x` is on devices that hold whole rows of it."""
    if not isinstance(x, jax.Array) or isinstance(x, jax.core.Tracer) or not x.ndim:
        return False
    return x.sharding.shard_shape(x.shape)[1:] == x.shape[1:]
