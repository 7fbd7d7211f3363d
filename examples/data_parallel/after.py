"""Data-parallel training in plain JAX: the state on every device, a shard of each batch."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


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


STEPS, BATCH = 60, 64


def init_params(key, sizes=(4, 32, 1)):
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {"w": jax.random.normal(k, (n, m)) / np.sqrt(n), "b": jnp.zeros(m)}
        for k, n, m in zip(keys, sizes[:-1], sizes[1:])
    ]


def predict(params, x):
    for layer in params[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def loss_fn(params, batch):
    return jnp.mean((predict(params, batch["x"]) - batch["y"]) ** 2)


@functools.partial(jax.jit, donate_argnums=(0,))
@functools.partial(shard_map_per_device, axis_name="batch")
def train_step(params, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, batch)
    grads = lax.pmean(grads, axis_name="batch")
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params, lax.pmean(loss, axis_name="batch")


def batches(seed=0):
    rng = np.random.default_rng(seed)
    slope = rng.normal(size=(4, 1)).astype(np.float32)
    while True:
        x = rng.normal(size=(BATCH, 4)).astype(np.float32)
        yield {"x": x, "y": np.sin(x @ slope)}


def shard(batch):
    n = jax.local_device_count()
    return jax.tree.map(lambda x: x.reshape(n, x.shape[0] // n, *x.shape[1:]), batch)


def main():
    params = init_params(jax.random.PRNGKey(0))
    params = device_put_replicated(params, jax.local_devices())
    for step, batch in zip(range(STEPS), batches()):
        params, loss = train_step(params, shard(batch))
        if step % 20 == 0 or step == STEPS - 1:
            print(f"step {step:3d}  loss {unreplicate(loss):.6f}")
    params = first_replica(params)
    print(f"bias of the last layer {params[-1]['b'][0]:.6f}")


if __name__ == "__main__":
    main()
