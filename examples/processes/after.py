"""Data-parallel training in many processes: each feeds its own devices, gradients go over all."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import multihost_utils


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
            return mapped_before(f, *options)
        except TypeError:  # something that has no hash, such as a dict of specs
            pass
    return map_rows(f, *options)


def map_rows(f, axis_name, in_specs, out_specs, devices, static):
    leading = jax.P(*axis_name) if isinstance(axis_name, tuple) else jax.P(axis_name)
    in_specs = leading if in_specs is None else in_specs
    out_specs = leading if out_specs is None else out_specs

    def rows_of(args, kwargs):
        """The numbers of the arguments that are rows, the rows, and a spec for each leaf."""
        numbers = [k for k in range(len(args)) if k not in static and k - len(args) not in static]
        specs = [in_specs[k] for k in numbers] if isinstance(in_specs, tuple) else in_specs
        rows = ([args[k] for k in numbers], kwargs)
        return numbers, rows, jax.tree.map(spec_of_leaves, (specs, leading), rows, is_leaf=is_spec)

    def mesh_for(sizes):
        return device_mesh(leading, sizes, devices)

    @functools.wraps(f)
    def mapped(*args, **kwargs):
        numbers, rows, specs = rows_of(args, kwargs)

        def one_row(blocks):
            row, named = jax.tree.map(lambda s, x: jnp.squeeze(x, sharded_axes(s)), specs, blocks)
            out = f(*replace_at(args, numbers, row), **named)
            return jax.tree.map(add_axes, out_specs, out, is_leaf=is_spec)

        return jax.shard_map(
            one_row,
            mesh=mesh_for(count_rows(specs, rows)),
            in_specs=(specs,),
            out_specs=out_specs,
            check_vma=False,
        )(rows)

    mapped.rows_of, mapped.mesh_for, mapped.out_specs = rows_of, mesh_for, out_specs
    mapped.devices = devices
    return mapped


mapped_before = functools.lru_cache(maxsize=64)(map_rows)


def device_mesh(axis_names, sizes, devices=None):
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


def count_rows(specs, tree):
    """How many rows there are along each axis of the mesh."""
    sizes = {}
    for spec, x in zip(jax.tree.leaves(specs), jax.tree.leaves(tree)):
        for axis in sharded_axes(spec):
            rows = jnp.shape(x)[axis] if axis < jnp.ndim(x) else None
            if rows is None or sizes.setdefault(spec[axis], rows) != rows:
                wanted = sizes.get(spec[axis], "some")
                raise ValueError(f"{spec} wants {wanted} rows, but got the shape {jnp.shape(x)}")
    return sizes


def replace_at(args, numbers, values):
    """The arguments with those of some numbers replaced."""
    new = list(args)
    for number, value in zip(numbers, values):
        new[number] = value
    return new


def add_axes(spec, tree):
    """A row of every leaf as a block again."""
    return jax.tree.map(lambda x: jnp.expand_dims(x, sharded_axes(spec)), tree)


def sharded_axes(spec):
    return tuple(axis for axis, name in enumerate(spec) if name is not None)


def spec_of_leaves(spec, tree):
    return jax.tree.map(lambda _: spec, tree)


def is_spec(x):
    return isinstance(x, jax.P)


def device_put_replicated(x, devices):
    """Put `x` on each device: one array a leaf, whose rows are never stacked elsewhere."""
    sharding = row_per_device(devices)
    copies = jax.device_put(jax.tree.map(as_row, x), jax.NamedSharding(sharding.mesh, jax.P()))
    return jax.tree.map(
        lambda copy: join_rows([shard.data for shard in copy.addressable_shards], sharding), copies
    )


def row_per_device(devices):
    """The sharding of arrays that have one row on each device."""
    return jax.NamedSharding(jax.sharding.Mesh(np.array(devices), ("devices",)), jax.P("devices"))


def as_row(x):
    """`x` with a leading axis of one; a NumPy array is only copied to where it goes."""
    return x[None] if isinstance(x, np.ndarray) else add_leading_axis(x)


add_leading_axis = jax.jit(lambda x: x[None])


def join_rows(rows, sharding):
    """One array of rows that are where they belong."""
    if jax.typeof(rows[0]).weak_type:  # as Python scalars are; made of shards it would be lost
        stacked = jnp.concatenate(jax.device_put(list(rows), rows[0].sharding))
        return jax.device_put(stacked, sharding)
    shape = (len(rows), *rows[0].shape[1:])
    return jax.make_array_from_single_device_arrays(shape, sharding, list(rows))


def host_local(jitted):
    """A jitted `shard_map_per_device` that each process calls with the rows of its own devices.

    They are stitched into global arrays on the way in, and it gets back its own part.
    """
    mapped = jitted.__wrapped__

    @functools.wraps(jitted)
    def call(*args, **kwargs):
        if jax.process_count() == 1 or only_mine(mapped.devices):
            return jitted(*args, **kwargs)
        numbers, rows, specs = mapped.rows_of(args, kwargs)
        mesh = mapped.mesh_for(global_rows(count_rows(specs, rows)))
        rows, named = multihost_utils.host_local_array_to_global_array(rows, mesh, specs)
        out = jitted(*replace_at(args, numbers, rows), **named)
        return multihost_utils.global_array_to_host_local_array(out, mesh, mapped.out_specs)

    def lower(*args, **kwargs):
        if jax.process_count() > 1 and not only_mine(mapped.devices):
            raise NotImplementedError("lower what is given to host_local, with global arrays")
        return jitted.lower(*args, **kwargs)

    call.lower = lower
    return call


def only_mine(devices):
    """Whether devices were given, and all of them belong to this process."""
    me = jax.process_index()
    return devices is not None and all(device.process_index == me for device in devices)


def global_rows(sizes):
    """The rows of all processes, from those of this one: the first axis spans them."""
    first = next(iter(sizes))
    return {**sizes, first: sizes[first] * jax.process_count()}


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


STEPS, BATCH = 40, 64  # of all processes together

jax.distributed.initialize()


@host_local
@functools.partial(jax.jit, donate_argnums=(0,))
@functools.partial(shard_map_per_device, axis_name="batch")
def train_step(params, x, y):
    def loss_fn(params):
        return jnp.mean((jnp.tanh(x @ params["w"]) @ params["v"] - y) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    grads = lax.pmean(grads, axis_name="batch")
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params, lax.pmean(loss, axis_name="batch")


def local_batches():
    """The part of each batch that is this process's, a row for each of its devices."""
    rng = np.random.default_rng(0)
    slope = rng.normal(size=(4, 1)).astype(np.float32)
    per_host = BATCH // jax.process_count()
    mine = slice(jax.process_index() * per_host, (jax.process_index() + 1) * per_host)
    while True:
        x = rng.normal(size=(BATCH, 4)).astype(np.float32)
        shards = (jax.local_device_count(), per_host // jax.local_device_count())
        x, y = x[mine], np.sin(x @ slope)[mine]
        yield x.reshape(*shards, 4), y.reshape(*shards, 1)


def main():
    rng = np.random.default_rng(1)
    params = {
        "w": rng.normal(size=(4, 16)).astype(np.float32) / 2,
        "v": rng.normal(size=(16, 1)).astype(np.float32) / 4,
    }
    params = device_put_replicated(params, jax.local_devices())
    for step, (x, y) in zip(range(STEPS), local_batches()):
        params, loss = train_step(params, x, y)
        if jax.process_index() == 0 and (step % 10 == 0 or step == STEPS - 1):
            print(f"step {step:2d}  loss {float(unreplicate(loss)):.6f}")
    params = first_replica(params)
    multihost_utils.assert_equal(jax.device_get(params), "processes disagree")
    if jax.process_index() == 0:
        print(f"{jax.device_count()} devices in {jax.process_count()} processes agree")


if __name__ == "__main__":
    main()
