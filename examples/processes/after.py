"""Data-parallel training in many processes: each feeds its own devices, gradients go over all."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import multihost_utils


def spmd_map(fun, axis_name="batch", *, donate_argnums=()):
    """Run `fun` on several devices, each with its slice of the arguments.

    This is `jax.jit` of `jax.shard_map`; the slices are along the first axis.
    Each process passes, and gets back, the slices of its own devices.
    """
    in_specs = out_specs = jax.P(axis_name)

    def mesh_of(count):
        chosen = sorted(jax.devices(), key=lambda d: d.process_index)
        return jax.sharding.Mesh(chosen[:count], (axis_name,))

    # An argument that is passed by name is not donated.
    @functools.partial(jax.jit, donate_argnums=donate_argnums, donate_argnames=())
    @functools.wraps(fun)
    def mapped(*args, **kwargs):
        mesh = mesh_of(jax.tree.leaves((args, kwargs))[0].shape[0])

        @jax.shard_map(
            mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
        )
        def on_device(*blocks):
            row, named = jax.tree.map(lambda x: jnp.squeeze(x, 0), blocks)
            out = fun(*row, **named)
            return jax.tree.map(lambda x: jnp.expand_dims(x, 0), out)

        return on_device(args, kwargs)

    @functools.wraps(fun)
    def call(*args, **kwargs):
        if jax.process_count() == 1:
            return mapped(*args, **kwargs)
        mesh = mesh_of(jax.device_count())
        rows = jax.tree.map(lambda x: getattr(x, "_whole", x), (args, kwargs))
        to_global = multihost_utils.host_local_array_to_global_array
        args, kwargs = to_global(rows, mesh, in_specs)
        out = mapped(*args, **kwargs)
        rows = multihost_utils.global_array_to_host_local_array(out, mesh, out_specs)
        # Passed again, they need not be made global again.
        jax.tree.map(lambda x, whole: setattr(x, "_whole", whole), rows, out)
        return rows

    return call


def device_put_replicated(x, devices):
    """Put `x` on every device, as the rows of one array per leaf."""
    mesh = jax.sharding.Mesh(devices, ("batch",))
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

    def first(x):
        if isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer):
            block = x.addressable_data(0)
            x = block if block.shape[1:] == x.shape[1:] else x
        return x[0] if np.ndim(x) else x

    return jax.tree.map(first, tree)


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
    params = jax.tree.map(lambda x: x[0], params)
    multihost_utils.assert_equal(jax.device_get(params), "processes disagree")
    if jax.process_index() == 0:
        print(f"{jax.device_count()} devices in {jax.process_count()} processes agree")


if __name__ == "__main__":
    main()
