"""One row on each device, where some arguments or outputs have their rows along other axes."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from ..mapping import add_axes, is_spec, sharded_axes, spec_of_leaves


def shard_map_per_device(f, axis_name="devices", in_specs=None, out_specs=None):
    """`jax.shard_map` of `f`, with one row of what `in_specs` shards on each device.

    `f` sees its row without the sharded axis; those of `out_specs` are put into what it returns.
    Both are the leading axis unless given, and always for keyword arguments. The mesh is made
    when `f` is traced: before that, no device is touched.
    """
    leading = jax.P(axis_name)
    in_specs = leading if in_specs is None else in_specs
    out_specs = leading if out_specs is None else out_specs

    @functools.wraps(f)
    def mapped(*args, **kwargs):
        blocks = (args, kwargs)
        specs = jax.tree.map(spec_of_leaves, (in_specs, leading), blocks, is_leaf=is_spec)

        def one_row(blocks):
            args, kwargs = jax.tree.map(lambda s, x: jnp.squeeze(x, sharded_axes(s)), specs, blocks)
            return jax.tree.map(add_axes, out_specs, f(*args, **kwargs), is_leaf=is_spec)

        leaves = zip(jax.tree.leaves(specs), jax.tree.leaves(blocks))
        rows = next(x.shape[axis] for spec, x in leaves for axis in sharded_axes(spec))
        devices = jax.devices()[: rows * jax.process_count()]
        mesh = jax.sharding.Mesh(np.array(devices), (axis_name,))
        return jax.shard_map(
            one_row, mesh=mesh, in_specs=(specs,), out_specs=out_specs, check_vma=False
        )(blocks)

    return mapped
