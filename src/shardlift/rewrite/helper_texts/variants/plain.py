"""Global arrays, where nothing is static and there is one process."""

import functools

import jax
import numpy as np

from ..global_arrays import run_on_row


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
