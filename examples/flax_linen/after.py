"""A classifier in flax linen: train state, batch norm, dropout, averaged gradients."""

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import jax_utils
from flax.training import common_utils, train_state
from jax import lax

CLASSES, BATCH, STEPS = 4, 64, 24


def per_row(f):
    """Let `f` see the one row of a block, and return a block of one row."""

    @functools.wraps(f)
    def on_block(*block):
        row = jax.tree.map(lambda x: jnp.squeeze(x, 0), block)
        return jax.tree.map(lambda x: jnp.expand_dims(x, 0), f(*row))

    return on_block


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


x_mesh = jax.sharding.Mesh(jax.devices(), ("x",))
# Each device has batch statistics of its own while training: they are averaged before evaluation.
cross_replica_mean = jax.jit(
    jax.shard_map(
        per_row(lambda x: lax.pmean(x, "x")),
        mesh=x_mesh,
        in_specs=jax.P("x"),
        out_specs=jax.P("x"),
        check_vma=False,
    )
)


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
    state = jax_utils.replicate(create_train_state(rng))
    dropout_rngs = common_utils.shard_prng_key(dropout_rng)
    mesh = jax.sharding.Mesh(jax.devices(), ("batch",))
    over_devices = functools.partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=jax.P("batch"),
        out_specs=jax.P("batch"),
        check_vma=False,
    )
    p_train_step = jax.jit(over_devices(per_row(train_step)), donate_argnums=(0,))
    p_eval_step = jax.jit(over_devices(per_row(eval_step)))

    train_metrics = []
    for _, batch in zip(range(STEPS), batches(seed=1)):
        state, metrics = p_train_step(state, batch, dropout_rngs)
        train_metrics.append(metrics)
    loss = common_utils.get_metrics(train_metrics)["loss"]
    print(f"loss {loss[0]:.6f} -> {loss[-1]:.6f}")

    state = sync_batch_stats(state)
    metrics = jax_utils.unreplicate(p_eval_step(state, next(batches(seed=2))))
    print(f"accuracy {metrics['accuracy']:.4f} after {int(state.step[0])} steps")


if __name__ == "__main__":
    main()
