"""A classifier in flax linen: train state, batch norm, dropout, averaged gradients."""

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import common_utils, train_state
from jax import lax


@functools.lru_cache(maxsize=128)  # a function that is mapped again is compiled once
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


def replicate(tree, devices=None):
    """Put `tree` on each of `devices`, the local ones unless given."""
    return device_put_replicated(tree, devices or jax.local_devices())


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


def has_rows(x):
    """Whether `x` lies on devices that hold whole rows of it."""
    if not isinstance(x, jax.Array) or isinstance(x, jax.core.Tracer):
        return False
    return x.ndim > 0 and x.sharding.shard_shape(x.shape)[1:] == x.shape[1:]


def first_row(x):
    """The row on the first local device of `x`."""
    return first_of_block(x.addressable_data(0))


first_of_block = jax.jit(lambda block: block[0])


CLASSES, BATCH, STEPS = 4, 64, 24


class Classifier(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        x = nn.Conv(8, (3, 3), strides=(2, 2), use_bias=False)(x)
        x = nn.BatchNorm(use_running_average=not train, momentum=0.8)(x)
        x = nn.relu(x).reshape((x.shape[0], -1))
        x = nn.Dropout(0.1, deterministic=not train)(x)
        return nn.Dense(CLASSES)(x)


class TrainState(train_state.TrainState):
    batch_stats: Any


def create_train_state(rng):
    model = Classifier()
    variables = model.init(rng, jnp.ones((1, 8, 8, 1)), train=False)
    return TrainState.create(
        apply_fn=model.apply,
        params=variables["params"],
        batch_stats=variables["batch_stats"],
        tx=optax.sgd(0.05, momentum=0.9),
    )


def cross_entropy(logits, labels):
    one_hot = common_utils.onehot(labels, CLASSES)
    return optax.softmax_cross_entropy(logits, one_hot).mean()


def train_step(state, batch, dropout_rng):
    dropout_rng = jax.random.fold_in(dropout_rng, state.step)

    def loss_fn(params):
        logits, updates = state.apply_fn(
            {"params": params, "batch_stats": state.batch_stats},
            batch["image"],
            train=True,
            mutable=["batch_stats"],
            rngs={"dropout": dropout_rng},
        )
        return cross_entropy(logits, batch["label"]), updates

    (loss, updates), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    grads = lax.pmean(grads, axis_name="batch")
    state = state.apply_gradients(grads=grads, batch_stats=updates["batch_stats"])
    return state, {"loss": lax.pmean(loss, axis_name="batch")}


def eval_step(state, batch):
    variables = {"params": state.params, "batch_stats": state.batch_stats}
    logits = state.apply_fn(variables, batch["image"], train=False)
    accuracy = jnp.mean(jnp.argmax(logits, -1) == batch["label"])
    return lax.pmean({"accuracy": accuracy}, axis_name="batch")


# Each device has batch statistics of its own while training: they are averaged before evaluation.
cross_replica_mean = jax.jit(shard_map_per_device(lambda x: lax.pmean(x, "x"), "x"))


def sync_batch_stats(state):
    return state.replace(batch_stats=cross_replica_mean(state.batch_stats))


def batches(seed):
    """Noisy pictures of one of four patterns."""
    patterns = np.random.default_rng(0).normal(size=(CLASSES, 8, 8, 1))
    rng = np.random.default_rng(seed)
    while True:
        label = rng.integers(CLASSES, size=BATCH)
        image = patterns[label] + 2 * rng.normal(size=(BATCH, 8, 8, 1))
        yield common_utils.shard({"image": image.astype(np.float32), "label": label})


def main():
    rng, dropout_rng = jax.random.split(jax.random.PRNGKey(0))
    state = replicate(create_train_state(rng))
    dropout_rngs = common_utils.shard_prng_key(dropout_rng)
    p_train_step = jax.jit(
        shard_map_per_device(train_step, "batch"), donate_argnums=(0,)
    )
    p_eval_step = jax.jit(shard_map_per_device(eval_step, "batch"))

    train_metrics = []
    for _, batch in zip(range(STEPS), batches(seed=1)):
        state, metrics = p_train_step(state, batch, dropout_rngs)
        train_metrics.append(metrics)
    loss = common_utils.get_metrics(train_metrics)["loss"]
    print(f"loss {loss[0]:.6f} -> {loss[-1]:.6f}")

    state = sync_batch_stats(state)
    metrics = unreplicate(p_eval_step(state, next(batches(seed=2))))
    print(f"accuracy {metrics['accuracy']:.4f} after {int(state.step[0])} steps")


if __name__ == "__main__":
    main()
