"""Global arrays: `jax.shard_map` over all devices, and values that are whole on each of them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils


def shard_map_on_devices(
    f,
    axis_name,
    in_specs,
    out_specs,
    row_args=(),
    row_outputs=(),
    static_argnums=(),
):
    """`jax.shard_map` of `f` over all devices, on global arrays.

    `row_args` are the arguments that have one row for each device, `row_outputs` the outputs that
    get one: `f` takes and returns the row itself. The mesh is made when `f` is traced: before
    that, no device is touched. Keyword arguments have one row for each device.
    """

    @functools.wraps(f)
    def mapped(*args, **kwargs):
        arrays = [None if k in static_argnums else x for k, x in enumerate(args)]

        def on_one_device(arrays, kwargs):
            def with_static(*rows, **named):
                return f(
                    *[args[k] if k in static_argnums else x for k, x in enumerate(rows)], **named
                )

            return run_on_row(with_static, arrays, kwargs, out_specs, row_args, row_outputs)

        return jax.shard_map(
            on_one_device,
            mesh=mesh_of_devices(axis_name),
            in_specs=(list(in_specs), jax.P(axis_name)),
            out_specs=out_specs,
            check_vma=False,
        )(arrays, kwargs)

    mapped.layout = (axis_name, in_specs, out_specs)
    return mapped


def shard_map_at_call(f, axis_name, in_specs, out_specs):
    """`jax.shard_map` of `f` over all devices; importing the module touches none of them."""

    @functools.wraps(f)
    def mapped(*args):
        return jax.shard_map(
            f,
            mesh=device_mesh(axis_name),
            in_specs=in_specs,
            out_specs=out_specs,
            check_vma=False,
        )(*args)

    return mapped


@functools.cache
def device_mesh(axis_name):
    """All devices in a row. It is made at the first call: an import touches no device."""
    auto = (jax.sharding.AxisType.Auto,)
    return jax.make_mesh((jax.device_count(),), (axis_name,), axis_types=auto)


def host_local_arrays(jitted):
    """A jitted `shard_map_on_devices` that each process calls with its own part of every array.

    They are stitched into global arrays on the way in, and it gets back its own part.
    """
    axis_name, in_specs, out_specs = jitted.__wrapped__.layout

    @functools.wraps(jitted)
    def call(*args, **kwargs):
        if jax.process_count() == 1:
            return jitted(*args, **kwargs)
        mesh = mesh_of_devices(axis_name)
        arrays = [None if spec is None else x for spec, x in zip(in_specs, args)]
        arrays, kwargs = multihost_utils.host_local_array_to_global_array(
            (arrays, kwargs), mesh, (list(in_specs), jax.P(axis_name))
        )
        given = [x if spec is None else y for spec, x, y in zip(in_specs, args, arrays)]
        out = jitted(*given, **kwargs)
        return multihost_utils.global_array_to_host_local_array(out, mesh, out_specs)

    return call


def jit_over_devices(f, axis_name, in_specs, **options):
    """`jax.jit` of `f` on arrays that are split over all devices as `in_specs` say.

    What it returns is whole on each device. The mesh is made at the first call: before that, no
    device is touched.
    """

    @functools.cache
    def jitted():
        mesh = device_mesh(axis_name)
        return jax.jit(
            f,
            in_shardings=tuple(jax.NamedSharding(mesh, spec) for spec in in_specs),
            out_shardings=jax.NamedSharding(mesh, jax.P()),
            **options,
        )

    @functools.wraps(f)
    def call(*args):
        return jitted()(*args)

    return call


def put_on_every_device(tree, axis_name="devices"):
    """A copy of `tree`, whole on each device of this process."""
    mesh = jax.sharding.Mesh(np.array(jax.local_devices()), (axis_name,))
    return jax.device_put(jax.tree.map(jnp.copy, tree), jax.NamedSharding(mesh, jax.P()))


def mesh_of_devices(axis_name):
    """All devices in a row, those of a process next to each other."""
    processes = range(jax.process_count())
    devices = [device for process in processes for device in jax.local_devices(process)]
    return jax.sharding.Mesh(np.array(devices), (axis_name,))


def run_on_row(f, args, kwargs, out_specs, row_args, row_outputs):
    """`f` on one device, all arrays seen by the compiler as blocks of one row, as pmap had them.

    XLA fuses by shape, and rounds by how it fuses: this keeps every bit of what pmap computed.
    """
    blocks = [x if k in row_args else add_row(x) for k, x in enumerate(args)]
    rows, named = drop_row(jax.tree.map(jax.lax.optimization_barrier, (blocks, kwargs)))
    out = jax.tree.map(jax.lax.optimization_barrier, add_row(f(*rows, **named)))
    if not isinstance(out_specs, tuple):
        return out if row_outputs else drop_row(out)
    return tuple(x if k in row_outputs else drop_row(x) for k, x in enumerate(out))


def add_row(tree):
    return jax.tree.map(lambda x: jnp.expand_dims(x, 0), tree)


def drop_row(tree):
    return jax.tree.map(lambda x: jnp.squeeze(x, 0), tree)
