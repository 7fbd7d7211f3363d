"""Data-parallel training with haiku: batch norm over all devices, dropout, optax."""

import functools

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax


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


CLASSES, BATCH, STEPS = 4, 64, 30


def forward(x, is_training):
    x = hk.Linear(32)(x)
    norm = hk.BatchNorm(True, True, 0.9, cross_replica_axis="i")
    x = jax.nn.relu(norm(x, is_training))
    if is_training:
        x = hk.dropout(hk.next_rng_key(), 0.1, x)
    return hk.Linear(CLASSES)(x)


net = hk.transform_with_state(forward)
optimizer = optax.sgd(0.1, momentum=0.9)


def loss_fn(params, state, rng, batch):
    logits, state = net.apply(params, state, rng, batch["x"], is_training=True)
    labels = jax.nn.one_hot(batch["y"], CLASSES)
    return optax.softmax_cross_entropy(logits, labels).mean(), state


@jax.jit
@functools.partial(shard_map_per_device, axis_name="i")
def init(rng, batch):
    params, state = net.init(rng, batch["x"], is_training=True)
    return params, state, optimizer.init(params)


@functools.partial(jax.jit, donate_argnums=(0, 1, 2))
@functools.partial(shard_map_per_device, axis_name="i")
def update(params, state, opt_state, rng, batch):
    rng, dropout_rng = jax.random.split(rng)
    grad_fn = jax.value_and_grad(loss_fn, has_aux=True)
    (loss, state), grads = grad_fn(params, state, dropout_rng, batch)
    grads, loss = jax.lax.pmean((grads, loss), axis_name="i")
    updates, opt_state = optimizer.update(grads, opt_state)
    return optax.apply_updates(params, updates), state, opt_state, rng, loss


@jax.jit
@functools.partial(shard_map_per_device, axis_name="i")
def accuracy(params, state, batch):
    logits, _ = net.apply(params, state, None, batch["x"], is_training=False)
    return jax.lax.pmean(jnp.mean(logits.argmax(-1) == batch["y"]), axis_name="i")


def batches():
    """Points around one of four centres, a shard for each device."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(CLASSES, 8))
    shards = (jax.local_device_count(), BATCH // jax.local_device_count())
    while True:
        y = rng.integers(CLASSES, size=shards)
        x = centres[y] + 0.8 * rng.normal(size=(*shards, 8))
        yield {"x": x.astype(np.float32), "y": y}


def main():
    devices = jax.local_devices()
    data = batches()
    init_rng, rng = jax.random.split(jax.random.PRNGKey(0))
    # The same key for the parameters everywhere, another one for dropout on each device.
    init_rngs = device_put_replicated(init_rng, devices)
    rngs = jax.random.split(rng, len(devices))
    params, state, opt_state = init(init_rngs, next(data))
    for step, batch in zip(range(STEPS), data):
        params, state, opt_state, rngs, loss = update(params, state, opt_state, rngs, batch)
        if step % 10 == 0 or step == STEPS - 1:
            print(f"step {step:2d}  loss {np.mean(jax.device_get(loss)):.6f}")
    print(f"accuracy {unreplicate(accuracy(params, state, next(data))):.4f}")
    size = hk.data_structures.tree_size(first_replica(params))
    print(f"{size} parameters")


if __name__ == "__main__":
    main()
