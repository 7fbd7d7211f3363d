"""The classifier on global arrays: batch norm over the whole batch, one key for dropout."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

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


def create_train_state(key):
    model = Classifier()
    variables = model.init(key, jnp.ones((1, 8, 8, 1)), train=False)
    return TrainState.create(
        apply_fn=model.apply,
        params=variables["params"],
        batch_stats=variables["batch_stats"],
        tx=optax.sgd(0.05, momentum=0.9),
    )


@jax.jit(donate_argnames="state")
def train_step(state, batch, dropout_key):
    def loss_fn(params):
        logits, updates = state.apply_fn(
            {"params": params, "batch_stats": state.batch_stats},
            batch["image"],
            train=True,
            mutable=["batch_stats"],
            rngs={"dropout": jax.random.fold_in(dropout_key, state.step)},
        )
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"])
        return losses.mean(), updates

    (loss, updates), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
    return state.apply_gradients(grads=grads, batch_stats=updates["batch_stats"]), loss


@jax.jit
def accuracy(state, batch):
    variables = {"params": state.params, "batch_stats": state.batch_stats}
    logits = state.apply_fn(variables, batch["image"], train=False)
    return jnp.mean(logits.argmax(-1) == batch["label"])


def batches(seed):
    """Noisy pictures of one of four patterns."""
    patterns = np.random.default_rng(0).normal(size=(CLASSES, 8, 8, 1))
    rng = np.random.default_rng(seed)
    while True:
        label = rng.integers(CLASSES, size=BATCH)
        image = patterns[label] + 2 * rng.normal(size=(BATCH, 8, 8, 1))
        yield {"image": image.astype(np.float32), "label": label.astype(np.int32)}


def main():
    mesh = jax.make_mesh((jax.device_count(),), ("batch",), axis_types=(AxisType.Auto,))
    over_batch, replicated = NamedSharding(mesh, P("batch")), NamedSharding(mesh, P())
    key, dropout_key = jax.random.split(jax.random.key(0))
    state = jax.device_put(create_train_state(key), replicated)
    losses = []
    for _, batch in zip(range(STEPS), batches(seed=1), strict=False):
        state, loss = train_step(state, jax.device_put(batch, over_batch), dropout_key)
        losses.append(loss)
    print(f"loss {losses[0]:.6f} -> {losses[-1]:.6f}")
    held_out = jax.device_put(next(batches(seed=2)), over_batch)
    print(f"accuracy {accuracy(state, held_out):.4f} after {state.step} steps")


if __name__ == "__main__":
    main()
