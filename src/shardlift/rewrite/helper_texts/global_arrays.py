"""Global arrays: `jax.shard_map` over all devices, and values that are whole on each of them."""

import functools

import jax
import jax.numpy as jnp


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


def per_row_at(f, in_axes, out_axes):
    """`f` for blocks of one row where an axis is 0: it sees the row alone, and returns one."""

    def move(change, axes, values):
        def part(axis, x):
            return x if axis is None else jax.tree.map(lambda y: change(y, 0), x)

        return jax.tree.map(part, axes, values, is_leaf=lambda axis: axis is None)

    @functools.wraps(f)
    def on_block(*block):
        return move(jnp.expand_dims, out_axes, f(*move(jnp.squeeze, in_axes, block)))

    return on_block


def shard_map_static(f, static, **options):
    """`jax.shard_map` of `f`, whose arguments at the positions `static` are not arrays."""

    @functools.wraps(f)
    def mapped(*args):
        def on_arrays(*arrays):
            rest = iter(arrays)
            return f(*(x if k in static else next(rest) for k, x in enumerate(args)))

        arrays = [x for k, x in enumerate(args) if k not in static]
        return jax.shard_map(on_arrays, **options)(*arrays)

    return mapped


@functools.cache
def device_mesh(axis_name):
    """All devices in a row. It is made at the first call: an import touches no device."""
    if jax.process_count() > 1:
        raise RuntimeError("written for one process, not for several")
    return jax.sharding.Mesh(jax.devices(), (axis_name,))


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
