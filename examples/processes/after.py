"""Data-parallel training in many processes: each feeds its own devices, gradients go over all."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import multihost_utils


def spmd_map(fun, axis_name="batch", *, donate_argnums=()):
    """Run `fun` on several devices, each with its slice of the arguments.

    This is `jax.jit` of `jax.shard_map`. The axes are given as for `jax.vmap`.
    Each process passes, and gets back, the slices of its own devices.
    """
    in_specs = _specs((0, 0), axis_name)
    out_specs = _specs(0, axis_name)

    def mesh_for(*trees):
        count = jax.tree.leaves(jax.tree.map(_size, in_specs, trees))[0]
        hosts = range(jax.process_count())
        local = [jax.local_devices(host) for host in hosts]
        chosen = list(itertools.chain(*local))
        chosen = chosen if len(hosts) > 1 else chosen[:count]
        return jax.sharding.Mesh(np.array(chosen), (axis_name,))

    @functools.wraps(fun)
    def mapped(*args, **kwargs):
        def on_device(*blocks):
            row, named = _at_axes(jnp.squeeze, in_specs, blocks)
            return _at_axes(jnp.expand_dims, out_specs, fun(*row, **named))

        sharded = jax.shard_map(
            on_device,
            mesh=mesh_for(args, kwargs),
            in_specs=in_specs,
            out_specs=out_specs,
            check_vma=False,
        )
        return sharded(args, kwargs)

    # An argument that is passed by name is not donated.
    jitted = jax.jit(
        mapped,
        donate_argnums=donate_argnums,
        donate_argnames=(),
    )
    return _host_local(jitted, in_specs, mesh_for)


def device_put_replicated(x, devices):
    """Put `x` on every device, as the rows of one array per leaf."""
    mesh = jax.sharding.Mesh(np.array(devices), ("batch",))
    rows = jax.NamedSharding(mesh, jax.P("batch"))

    def put(x):
        row = jnp.expand_dims(jax.device_put(x), 0)
        shape = (len(devices), *row.shape[1:])
        if jax.typeof(row).weak_type:  # a Python number: not float32 yet
            return jax.device_put(jnp.broadcast_to(row, shape), rows)
        copies = jax.device_put(row, jax.NamedSharding(mesh, jax.P()))
        blocks = [shard.data for shard in copies.addressable_shards]
        return jax.make_array_from_single_device_arrays(shape, rows, blocks)

    return jax.tree.map(put, x)


def unreplicate(tree):
    """The first row of every leaf, read from one device without a gather."""
    return jax.tree.map(_first_row, tree)


def first_replica(tree):
    """`x[0]` of every leaf, on all its devices, without a gather."""

    def first(x):
        row, sharding = _first_row(x), getattr(x, "sharding", None)
        if row is x or not isinstance(sharding, jax.NamedSharding):
            return x[0]
        return jax.device_put(row, jax.NamedSharding(sharding.mesh, jax.P()))

    return jax.tree.map(first, tree)


def _first_row(x):
    if isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer):
        block = x.addressable_data(0)
        x = block if block.shape[1:] == x.shape[1:] else x
    return x[0] if np.ndim(x) else x


def _specs(axes, axis_name):
    def spec(axis):
        return jax.P() if axis is None else jax.P(*[None] * axis, axis_name)

    return jax.tree.map(spec, axes, is_leaf=lambda axis: axis is None)


def _at_axes(change, specs, tree):
    def at_axis(spec, part):
        axes = tuple(k for k, name in enumerate(spec) if name is not None)
        return jax.tree.map(lambda x: change(x, axes), part)

    return jax.tree.map(at_axis, specs, tree)


def _size(spec, tree):
    """The number of slices; None where there are none."""
    shapes = map(np.shape, jax.tree.leaves(tree))
    sizes = (shape[len(spec) - 1] for shape in shapes if shape and len(spec))
    return next(sizes, None)


def _host_local(call, in_specs, mesh_for):
    """Stitch the slices of this process into global arrays, and back."""

    @functools.wraps(call)
    def stitching(*args, **kwargs):
        mesh = mesh_for(args, kwargs)
        local = mesh.local_mesh
        if not mesh.is_multi_process:
            return call(*args, **kwargs)

        def stitch(spec, part):
            return jax.tree.map(_mover(local, mesh, spec), part)

        def own_part(x):
            return _mover(mesh, local, x.sharding.spec)(x)

        args, kwargs = jax.tree.map(stitch, in_specs, (args, kwargs))
        return jax.tree.map(own_part, call(*args, **kwargs))

    return stitching


@functools.cache
def _mover(old, new, spec):
    """Make an array on more, or fewer, processes of the blocks of this one."""
    before, after = jax.NamedSharding(old, spec), jax.NamedSharding(new, spec)

    def move(x):
        if not isinstance(x, (jax.Array, np.ndarray)):
            return x  # a number: jit puts it on every device
        if getattr(x, "sharding", None) != before:
            x = jax.device_put(x, before)
        shape = list(x.shape)
        if len(spec):
            shape[len(spec) - 1] = shape[len(spec) - 1] // old.size * new.size
        blocks = [shard.data for shard in x.addressable_shards]
        make = jax.make_array_from_single_device_arrays
        return make(tuple(shape), after, blocks)

    return move


STEPS, BATCH = 40, 64  # of all processes together

jax.distributed.initialize()


@functools.partial(spmd_map, axis_name="batch", donate_argnums=(0,))
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
