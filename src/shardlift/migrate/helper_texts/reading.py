"""The first row of arrays that have one row on each device, read where it lies."""

import jax


def unreplicate(tree):
    """The first device's row of every leaf, on that device: nothing is gathered."""

    def first(x):
        if getattr(x, "ndim", 1) == 0:
            return x  # a scalar has no rows
        return first_row(x) if has_rows(x) else x[0]

    return jax.tree.map(first, tree)


def first_replica(tree):
    """`x[0]` of every leaf, on all its devices as `x[0]` is, without a gather."""

    def first(x):
        if not has_rows(x) or not x.is_fully_addressable or len(x.devices()) == 1:
            return x[0]
        return jax.device_put(first_row(x), jax.NamedSharding(x.sharding.mesh, jax.P()))

    return jax.tree.map(first, tree)


def has_rows(x):
    """Whether `x` lies on devices that hold whole rows of it."""
    if not isinstance(x, jax.Array) or isinstance(x, jax.core.Tracer):
        return False
    return x.ndim > 0 and x.sharding.shard_shape(x.shape)[1:] == x.shape[1:]


def first_row(x):
    """The row on the first local device of `x`."""
    return first_of_block(x.addressable_data(0))


first_of_block = jax.jit(lambda block: block[0])
