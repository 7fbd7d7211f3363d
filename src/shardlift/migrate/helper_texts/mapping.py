"""One row on each device: `jax.shard_map` as one device sees it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np


def shard_map_per_device(
    f, axis_name=None, in_specs=None, out_specs=None, *, devices=None, static_argnums=()
):
    """`jax.shard_map` of `f`, with one row on each device.

    `f` sees its row without the axes that `in_specs` shards; those of `out_specs` are added to
    what it returns. Both are the leading axes unless given, and always for keyword arguments.
    The mesh is made when `f` is traced, of as many devices as there are rows: before that, no
    device is touched. A tuple of names makes a mesh of as many axes.
    """
    static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
    devices = None if devices is None else tuple(devices)
    options = ("devices" if axis_name is None else axis_name, in_specs, out_specs, devices, static)
    if getattr(f, "__closure__", f) is None and not hasattr(f, "__self__"):
        try:  # a plain function, mapped before: jit finds again what it compiled
            return _mapped_before(f, *options)
        except TypeError:  # something that has no hash, such as a dict of specs
            pass
    return _map_rows(f, *options)


def _map_rows(f, axis_name, in_specs, out_specs, devices, static):
    leading = jax.P(*axis_name) if isinstance(axis_name, tuple) else jax.P(axis_name)
    in_specs = leading if in_specs is None else in_specs
    out_specs = leading if out_specs is None else out_specs

    def rows_of(args, kwargs):
        """The numbers of the arguments that are rows, the rows, and a spec for each leaf."""
        numbers = [k for k in range(len(args)) if k not in static and k - len(args) not in static]
        specs = [in_specs[k] for k in numbers] if isinstance(in_specs, tuple) else in_specs
        rows = ([args[k] for k in numbers], kwargs)
        return (
            numbers,
            rows,
            jax.tree.map(_spec_of_leaves, (specs, leading), rows, is_leaf=_is_spec),
        )

    def mesh_for(sizes):
        return _device_mesh(leading, sizes, devices)

    @functools.wraps(f)
    def mapped(*args, **kwargs):
        numbers, rows, specs = rows_of(args, kwargs)

        def one_row(blocks):
            row, named = jax.tree.map(lambda s, x: jnp.squeeze(x, _sharded_axes(s)), specs, blocks)
            out = f(*_replace_at(args, numbers, row), **named)
            return jax.tree.map(_add_axes, out_specs, out, is_leaf=_is_spec)

        return jax.shard_map(
            one_row,
            mesh=mesh_for(_count_rows(specs, rows)),
            in_specs=(specs,),
            out_specs=out_specs,
            check_vma=False,
        )(rows)

    mapped.rows_of, mapped.mesh_for, mapped.out_specs = rows_of, mesh_for, out_specs
    mapped.devices = devices
    return mapped


_mapped_before = functools.lru_cache(maxsize=64)(_map_rows)


def _device_mesh(axis_names, sizes, devices=None):
    """A mesh with an axis for each name: the first devices, or those given."""
    if not sizes and devices is not None:
        sizes = {axis_names[0]: len(devices)}
    shape = [sizes[name] for name in axis_names]
    needed = int(np.prod(shape))
    if devices is None:
        processes = range(jax.process_count())
        devices = [device for process in processes for device in jax.local_devices(process)]
        devices = devices[:needed] if len(processes) == 1 else devices
    if len(devices) != needed:
        raise ValueError(
            f"one row on each device, but {sizes} rows and {len(devices)} devices "
            f"in {jax.process_count()} processes"
        )
    return jax.sharding.Mesh(np.array(devices).reshape(shape), tuple(axis_names))


def _count_rows(specs, tree):
    """How many rows there are along each axis of the mesh."""
    sizes = {}
    for spec, x in zip(jax.tree.leaves(specs), jax.tree.leaves(tree)):
        for axis in _sharded_axes(spec):
            rows = jnp.shape(x)[axis] if axis < jnp.ndim(x) else None
            if rows is None or sizes.setdefault(spec[axis], rows) != rows:
                wanted = sizes.get(spec[axis], "some")
                raise ValueError(f"{spec} wants {wanted} rows, but got the shape {jnp.shape(x)}")
    return sizes


def _replace_at(args, numbers, values):
    """The arguments with those of some numbers replaced."""
    new = list(args)
    for number, value in zip(numbers, values):
        new[number] = value
    return new


def _add_axes(spec, tree):
    """A row of every leaf as a block again."""
    return jax.tree.map(lambda x: jnp.expand_dims(x, _sharded_axes(spec)), tree)


def _sharded_axes(spec):
    return tuple(axis for axis, name in enumerate(spec) if name is not None)


def _spec_of_leaves(spec, tree):
    return jax.tree.map(lambda _: spec, tree)


def _is_spec(x):
    return isinstance(x, jax.P)
