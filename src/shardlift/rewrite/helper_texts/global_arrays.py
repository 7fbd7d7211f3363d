"""Global arrays: `jax.shard_map` over all devices, and values that are whole on each of them."""

import functools

import jax


def shard_map_at_call(f, axis_name, in_specs, out_specs):
    """`jax.shard_map` of `f` over all devices; importing the module touches none of them."""

    @functools.wraps(f)
    def mapped(*args):
        return jax.shard_map(
            f, mesh=device_mesh(axis_name), in_specs=in_specs, out_specs=out_specs, check_vma=False
        )(*args)

    return mapped


@functools.cache
def device_mesh(axis_name):
    """All devices in a row. It is made at the first call: an import touches no device."""
    if jax.process_count() > 1:
        raise RuntimeError("written for one process, not for several")
    return jax.sharding.Mesh(jax.devices(), (axis_name,))


def jit_over_devices(f, axis_name, in_specs, **options):
    """`jax.jit` of `f` on arrays that are split over all devices as `in_specs` say.

    What it returns is whole on each device. Its collectives are over an axis of size 1, which
    changes nothing. The mesh is made at the first call: before that, no device is touched.
    """
    whole = jax.vmap(f, None, None, axis_name=axis_name, axis_size=1)

    @functools.cache
    def jitted():
        mesh = device_mesh(axis_name)
        return jax.jit(
            whole,
            in_shardings=tuple(jax.NamedSharding(mesh, spec) for spec in in_specs),
            out_shardings=jax.NamedSharding(mesh, jax.P()),
            **options,
        )

    @functools.wraps(f)
    def call(*args):
        return jitted()(*args)

    return call
