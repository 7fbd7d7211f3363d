"""pmap's own options, for code that hands pmap on: aliases, partials, wrappers."""

import jax

from .mapping import shard_map_per_device


def jit_per_device(
    f,
    axis_name=None,
    *,
    in_axes=0,
    out_axes=0,
    static_broadcasted_argnums=(),
    devices=None,
    backend=None,
    axis_size=None,
    donate_argnums=(),
):
    """`jax.jit` of `shard_map_per_device`, by the options of `jax.pmap`."""
    name = "devices" if axis_name is None else axis_name
    if devices is None and (backend is not None or axis_size is not None):
        devices = jax.devices(backend)[:axis_size]
    mapped = shard_map_per_device(
        f,
        name,
        specs_of_axes(in_axes, name),
        specs_of_axes(out_axes, name),
        devices=devices,
        static_argnums=static_broadcasted_argnums,
    )
    return jax.jit(mapped, static_argnums=static_broadcasted_argnums, donate_argnums=donate_argnums)


def specs_of_axes(axes, name):
    """A spec for each axis in a tree; None is not mapped."""
    axes = tuple(axes) if isinstance(axes, list) else axes
    return jax.tree.map(lambda axis: spec_of_axis(axis, name), axes, is_leaf=lambda x: x is None)


def spec_of_axis(axis, name):
    if axis is not None and axis < 0:
        raise ValueError(f"axis {axis}: a PartitionSpec counts from the front")
    return jax.P() if axis is None else jax.P(*[None] * axis, name)
