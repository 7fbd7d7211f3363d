"""Data-parallel training with haiku: batch norm over all devices, dropout, optax."""

import functools

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax

CLASSES, BATCH, STEPS = 4, 64, 30


def device_put_replicated(x, devices):
    """Put `x` on every device, as the rows of one array per leaf."""
    mesh = jax.sharding.Mesh(devices, ("i",))
    whole = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("i"))
    stack = jax.jit(jnp.broadcast_to, static_argnums=1, out_shardings=rows)
    x = jax.device_put(x, whole)
    return jax.tree.map(lambda y: stack(y, (mesh.size, *y.shape)), x)


def per_row(f):
    """Let `f` see the one row of a block, and return a block of one row."""

    @functools.wraps(f)
    def on_block(*block):
        row = jax.tree.map(lambda x: jnp.squeeze(x, 0), block)
        return jax.tree.map(lambda x: jnp.expand_dims(x, 0), f(*row))

    return on_block


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


mesh = jax.sharding.Mesh(jax.devices(), ("i",))


@jax.jit
@jax.shard_map(mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P("i"), check_vma=False)
@per_row
def init(rng, batch):
    params, state = net.init(rng, batch["x"], is_training=True)
    return params, state, optimizer.init(params)


@functools.partial(jax.jit, donate_argnums=(0, 1, 2))
@jax.shard_map(mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P("i"), check_vma=False)
@per_row
def update(params, state, opt_state, rng, batch):
    rng, dropout_rng = jax.random.split(rng)
    grad_fn = jax.value_and_grad(loss_fn, has_aux=True)
    (loss, state), grads = grad_fn(params, state, dropout_rng, batch)
    grads, loss = jax.lax.pmean((grads, loss), axis_name="i")
    updates, opt_state = optimizer.update(grads, opt_state)
    return optax.apply_updates(params, updates), state, opt_state, rng, loss


@jax.jit
@jax.shard_map(mesh=mesh, in_specs=jax.P("i"), out_specs=jax.P("i"), check_vma=False)
@per_row
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
    print(f"accuracy {jax.device_get(accuracy(params, state, next(data)))[0]:.4f}")
    size = hk.data_structures.tree_size(jax.tree.map(lambda x: x[0], params))
    print(f"{size} parameters")


if __name__ == "__main__":
    main()
