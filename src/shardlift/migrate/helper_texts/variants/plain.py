"""One row on each device, where every argument and output has its rows along the leading axis."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from ..global_arrays import run_on_row


def shard_map_per_device(f, axis_name="devices"):
    """`jax.shard_map` of `f`, with one row of every argument on each device.

    `f` sees its row without the leading axis, which is put back on what it returns. The mesh is
    made when `f` is traced: before that, no device is touched.
    """

    @functools.wraps(f)
    def mapped(*args, **kwargs):
        def one_row(args, kwargs):
            args, kwargs = jax.tree.map(lambda x: jnp.squeeze(x, 0), (args, kwargs))
            return jax.tree.map(lambda x: jnp.expand_dims(x, 0), f(*args, **kwargs))

        rows = len(jax.tree.leaves((args, kwargs))[0])
        devices = jax.devices()[: rows * jax.process_count()]
        mesh = jax.sharding.Mesh(np.array(devices), (axis_name,))
        spec = jax.P(axis_name)
        sharded = jax.shard_map(one_row, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
        return sharded(args, kwargs)

    return mapped


def shard_map_on_devices(f, axis_name, in_specs, out_specs, row_args=(), row_outputs=()):
    """`jax.shard_map` of `f` over all devices, on global arrays.

    `row_args` are the arguments that have one row for each device, `row_outputs` the outputs that
    get one: `f` takes and returns the row itself. The mesh is made when `f` is traced: before
    that, no device is touched. Keyword arguments have one row for each device.
    """

    @functools.wraps(f)
    def mapped(*args, **kwargs):
        def on_one_device(args, kwargs):
            return run_on_row(f, args, kwargs, out_specs, row_args, row_outputs)

        mesh = jax.sharding.Mesh(np.array(jax.devices()), (axis_name,))
        specs = (in_specs, jax.P(axis_name))
        return jax.shard_map(
            on_one_device, mesh=mesh, in_specs=specs, out_specs=out_specs, check_vma=False
        )(args, kwargs)

    return mapped
